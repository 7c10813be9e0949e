"""Recorded admission passes: the adder's budgets at the start and after each request offered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvsched.conform.sglang.build import PRIVATE, fill_tree, give, make_req
from kvsched.conform.sglang.result import Pair, taken
from kvsched.log import Log
from kvsched.sglang import Config
from kvsched.sglang.adder import Verdict
from kvsched.sglang.ignore_eos import Adder
from kvsched.sglang.kv_cache import KVCache

OUTPUTS = 9_000_000
"""Where the token ids of earlier outputs begin."""

STEP = (
    "verdict",
    "added",
    "extent",
    "new_chunked",
    "budgets",
    "states",
    "evictable",
    "hit_tokens",
    "input_tokens",
)
"""The columns of a recorded step."""


def adder(case: dict[str, Any]) -> Iterator[Pair]:
    """The start, the chunked request if there is one, then everyone up to the first refusal."""
    built = _built(case)
    kv = built.kv
    got = {"avail": kv.available, "evictable": kv.evictable, "b0": list(built.budgets)}
    yield taken(case, got)
    if case.get("chunked_first") is not None:
        yield taken(case, {"chunk_res": _continue(built, case)})
    offered = 0
    for asked in case["waiting"]:
        got = _offer(built, offered, asked)
        if offered < len(case["steps"]):
            yield dict(zip(STEP, case["steps"][offered], strict=True)), got
        offered += 1
        if got["verdict"] != Verdict.CONTINUE:
            break
    yield {"steps": len(case["steps"])}, {"steps": offered}


def _built(case: dict[str, Any]) -> Adder:
    """The adder before its first request. Who runs holds no memory in these recordings."""
    config = Config(
        case["total"],
        page_size=case["page"],
        max_prefill_tokens=case["max_prefill"],
        chunked_prefill_size=case["chunk"],
        disable_radix_cache=not case["radix"],
        prefill_max_requests=case["prefill_max"],
        truncation_align_size=case["align"],
    )
    kv = KVCache(config, Log())
    fill_tree(kv, case["tree"])
    kv.pool.take(kv.ceil(case["ballast"]) // kv.page_size)
    running = []
    for i, (length, outputs, max_new, ignore_eos) in enumerate(case["running"]):
        r = make_req(config, i, [[PRIVATE * i, length]], max_new, ignore_eos=ignore_eos)
        give(r, [0] * outputs)
        running.append(r)
    return Adder(config, kv, running, case["ratio"], case["mixed_decode"])


def _continue(built: Adder, case: dict[str, Any]) -> list[Any]:
    """A chunked request whose first ``done`` tokens are computed."""
    done, tokens, max_new = case["chunked_first"]
    r = make_req(built.config, len(case["waiting"]), tokens, max_new)
    r.prefix_len, r.fill_len = done, r.num_tokens
    truncated = built.add_chunked(r)
    return [*r.extend_range, truncated, list(built.budgets)]


def _offer(built: Adder, number: int, asked: list[Any]) -> dict[str, Any]:
    """One request, matched and offered."""
    tokens, outputs, max_new, ignore_eos = asked
    r = make_req(built.config, number, tokens, max_new, ignore_eos=ignore_eos)
    give(r, range(OUTPUTS + 1000 * number, OUTPUTS + 1000 * number + outputs))
    r.fill_len = r.num_tokens
    built.kv.match(r, r.fill_len - 1)
    verdict = built.add(r)
    added = r in built.can_run
    states = built.endings
    got = (
        verdict.value,
        added,
        list(r.extend_range) if added else None,
        built.new_chunked is not None,
        list(built.budgets),
        None if states is None else [list(state) for state in states],
        built.kv.evictable,
        built.hit_tokens,
        built.input_tokens,
    )
    return dict(zip(STEP, got, strict=True))
