"""The work itself, on the CPU: right answers first, then times."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kvsched import profiles
from kvsched.costs import carried
from kvsched.costs.units import KiB, MiB
from kvsched.device import Session
from kvsched.device.backend import Shape
from kvsched.device.scale import SCALES
from kvsched.errors import InputError
from kvsched.profiles import Part

torch = pytest.importorskip("torch")
from kvsched.device import cpu, cuda, find  # noqa: E402
from kvsched.device.kernels import Layer, Stack, _attention, _mask  # noqa: E402

SMALL = dataclasses.replace(
    carried.MODEL,
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=8,
)


@pytest.fixture
def kernels() -> cpu.Cpu:
    return cpu.Cpu()


def reference(q: Any, k: Any, v: Any, cached: int) -> Any:
    """Attention written out: token i sees positions up to cached + i; KV heads are shared."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    tokens, length = q.shape[-2], k.shape[-2]
    seen = torch.arange(length) <= cached + torch.arange(tokens)[:, None]
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v


@pytest.mark.parametrize(("tokens", "cached"), [(7, 0), (5, 6), (2, 9), (1, 8), (1, 0)])
def test_attention_is_masked_from_the_lower_right(
    tokens: int, cached: int, kernels: cpu.Cpu
) -> None:
    torch.manual_seed(0)
    q = torch.randn(2, 8, tokens, 8)
    k, v = torch.randn(2, 2, 2, cached + tokens, 8)
    torch.testing.assert_close(
        _attention(q, k, v, _mask(kernels, tokens, cached)), reference(q, k, v, cached)
    )


def test_a_warm_suffix_equals_the_end_of_the_whole_prompt(kernels: cpu.Cpu) -> None:
    layer = Layer(kernels, SMALL, 1)
    x = torch.randn(1, 12, 64)
    whole = layer(x, kernels._random(2, 1, 2, 12, 8), 0, None)
    cache = kernels._random(2, 1, 2, 12, 8)
    layer(x[:, :9], cache[:, :, :, :9], 0, None)
    rest = layer(x[:, 9:], cache, 9, _mask(kernels, 3, 9))
    torch.testing.assert_close(rest, whole[:, 9:])


def test_the_ranks_of_a_layer_add_up_to_its_flop(kernels: cpu.Cpu) -> None:
    whole, rank = Layer(kernels, SMALL, 1), Layer(kernels, SMALL, 2)
    for name in ("qkv", "o", "gate_up", "down"):
        assert getattr(whole, name).numel() == 2 * getattr(rank, name).numel()


def test_layers_are_cycled_and_their_parameters_are_the_models(kernels: cpu.Cpu) -> None:
    stack = Stack(kernels, SMALL, 1, distinct=3)
    out = stack.forward(Shape(2, 4, 3), 5)()
    assert out.shape == (2, 4, 64)
    assert torch.isfinite(out).all()
    layer = stack.all[0]
    held = sum(getattr(layer, name).numel() for name in ("qkv", "o", "gate_up", "down"))
    assert held == SMALL.prompt_params // SMALL.num_hidden_layers


def test_copies_put_every_piece_where_it_belongs(kernels: cpu.Cpu) -> None:
    pool, host, stage = kernels.pool(64), kernels.host(64, pinned=True), kernels.pool(64)
    pool.copy_(torch.arange(64))
    order = [3, 1, 0, 2]
    kernels.copies(host, pool, list(enumerate(order)))()
    wanted = torch.arange(64, dtype=torch.uint8).view(4, 16)[order]
    assert torch.equal(host.view(4, 16), wanted)
    back = kernels.pool(64)
    kernels.copies(back, host, [(place, i) for i, place in enumerate(order)])()
    assert torch.equal(back, pool)
    host.zero_()
    kernels.gather(host, pool, order, stage)()
    assert torch.equal(host.view(4, 16), wanted)
    back.zero_()
    kernels.scatter(back, host, order, stage)()
    assert torch.equal(back, pool)


def test_random_numbers_repeat_and_are_not_zero(
    kernels: cpu.Cpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvsched.device.kernels._RANDOM", 10)
    made = kernels._random(5, 5).view(-1)
    assert torch.equal(made[:10], made[10:20])
    assert (made != 0).all()


def test_the_cpu_calibrates_and_says_that_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = dataclasses.replace(
        SCALES["cpu", "quick"],
        matmul=64,
        duplicate=MiB,
        prompts=(2, 4),
        suffix=(4, (2,)),
        steps=((1, 2), (2, 2), (2, 4)),
        fragments=(4 * KiB, 64 * KiB),
        few=(4 * KiB,),
        transfer=256 * KiB,
    )
    monkeypatch.setitem(SCALES, ("cpu", "quick"), tiny)
    monkeypatch.setattr("kvsched.device.jobs.MODEL", carried.MODEL)
    backend = find("cpu")
    monkeypatch.setattr(
        backend, "layers", lambda model, part, distinct: Stack(backend, SMALL, 1, 2)
    )
    session = Session(backend, "quick", tmp_path / "mine.json")
    rows = list(session.run())
    made = session.finish("2026-02-03")
    assert {row["median"] for row in rows}.isdisjoint({"–"})
    assert profiles.load(tmp_path / "mine.json") == made
    assert made.origin.endswith("measured on a CPU, no GPU, 2026-02-03")
    assert {table.route for table in made.copies} == {"loop", "gather"}
    assert made.prefill[0].part == Part(1, 8)
    assert made.provenance is not None
    assert made.provenance.dtype == "float32"


def test_a_cpu_has_no_streams(kernels: cpu.Cpu) -> None:
    for ask in (kernels.stream, lambda: kernels.graph(lambda: None)):
        with pytest.raises(InputError, match="a CPU"):
            ask()


def test_where_a_cpus_memory_ran_out_is_known(kernels: cpu.Cpu) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert kernels.is_full(caught.value)
    assert not kernels.is_full(RuntimeError("shapes differ"))
    assert kernels.room() > MiB


def test_a_system_that_does_not_tell_has_half_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_field", lambda path, name: "")
    assert cpu.available() > MiB
    assert cpu.cpu_name().startswith("CPU ")


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a CUDA device")
def test_cuda_where_there_is_none_is_refused_with_a_fix() -> None:
    with pytest.raises(
        InputError, match=r"--device cuda: torch sees no CUDA device; use --device cpu"
    ):
        find("cuda")


def test_a_driver_that_cannot_be_asked_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert cuda.driver().startswith("unknown, for CUDA")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_calibrates(tmp_path: Path) -> None:
    """What no test without a device runs: events, streams, graphs, page-locked memory."""
    session = Session(find("cuda"), "quick", tmp_path / "mine.json", seconds=20)
    list(session.run())
    made = session.finish("2026-02-03")
    assert {"loop", "graph", "gather", "pageable"} <= {table.route for table in made.copies}
