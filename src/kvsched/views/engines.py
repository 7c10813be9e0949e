"""What of the player's run is read by the parts of the engine that made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kvsched import log as logs
from kvsched.explain.sglang.short import Short as SGLangShort
from kvsched.explain.short import Short
from kvsched.log import Log
from kvsched.sglang import Config
from kvsched.sglang import events as own
from kvsched.sglang.ratio import NewTokenRatio
from kvsched.views import sglang
from kvsched.views.cells import Moment
from kvsched.views.follow import follow
from kvsched.views.panels import panel

VLLM: tuple[type[Any], ...] = (
    logs.Arrive, logs.Admit, logs.Resume, logs.Chunk, logs.Idle, logs.Allocate, logs.Evict,
    logs.Cache, logs.Uncache, logs.Free, logs.Deny, logs.Undeny, logs.Preempt, logs.Finish,
    logs.Abort, logs.Forget, logs.Promote, logs.SetAside, logs.Enqueue, logs.Load, logs.Report,
    logs.Progress, logs.ChunkEnd, logs.Continue, logs.Deliver,
)  # fmt: skip
"""The kinds that move a board, and ``deliver``; the others are told in words only."""

SGLANG: tuple[type[Any], ...] = (
    logs.Arrive, logs.Admit, logs.Resume, logs.Chunk, logs.Allocate, logs.Evict, logs.Cache,
    logs.Free, logs.Deny, logs.Undeny, logs.Preempt, logs.Finish, own.Sorted, own.Chunked,
    own.Merge, own.Drop, own.Ride, own.Retract, own.Requeue, own.Landed, own.Full, own.Ratio,
    own.Adopt, own.Grow, own.Leave,
)  # fmt: skip
"""The kinds that move SGLang's board."""


class Engine(NamedTuple):
    """``kinds`` move a board; a moment of ``follow`` is told by ``short``, shown by ``panel``."""

    kinds: Sequence[type[Any]]
    follow: Callable[[Log], Iterator[Moment]]
    short: Callable[[dict[str, Any]], Callable[[Any], list[str]]]
    panel: Callable[[Any, dict[str, Any]], dict[str, Any]]
    config: Callable[[dict[str, Any]], dict[str, Any]]


def _vllm_config(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "blocks": config["num_gpu_blocks"] - 1,
        "size": config["block_size"],
        "unit": "block",
        "budget": config["max_num_batched_tokens"],
        "slots": config["max_num_seqs"],
        "policy": config["policy"],
    }


def _sglang_config(config: dict[str, Any]) -> dict[str, Any]:
    own_config = Config(**config)
    return {
        "blocks": own_config.num_pages,
        "size": own_config.page_size,
        "unit": "page",
        "budget": own_config.max_prefill_tokens,
        "slots": own_config.max_running_requests,
        "policy": own_config.schedule_policy,
        "retraction": own_config.retraction_policy,
        "sign": own_config.priority_sign,
        "ratio": NewTokenRatio(own_config).current,
    }


def _vllm_short(config: dict[str, Any]) -> Callable[[Any], list[str]]:
    short = Short(config)
    return lambda moment: short.tell(moment.record)


def _sglang_short(config: dict[str, Any]) -> Callable[[Any], list[str]]:
    short = SGLangShort(config)
    return lambda moment: short.tell(moment.it)


ENGINES = {
    "vllm": Engine(VLLM, follow, _vllm_short, panel, _vllm_config),
    "sglang": Engine(SGLANG, sglang.follow, _sglang_short, sglang.panel, _sglang_config),
}
