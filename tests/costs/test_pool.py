"""Pool sizing beyond the carried example, and its bad input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched.costs import Pool, drain, kv_bytes, runway, watermark_blocks
from kvsched.costs.units import GiB
from kvsched.errors import InputError


@given(st.integers(1, 10**12), st.integers(1, 10**6), st.integers(1, 256))
def test_blocks_fit_and_one_more_does_not(size: int, token_bytes: int, block_size: int) -> None:
    pool = Pool(size, token_bytes, block_size)
    assert pool.blocks * token_bytes * block_size <= size
    assert (pool.blocks + 1) * token_bytes * block_size > size


@pytest.mark.parametrize("name", ["size", "token_bytes", "block_size"])
def test_a_pool_of_nothing_is_refused(name: str) -> None:
    values = {"size": 1, "token_bytes": 1, "block_size": 1, name: 0}
    with pytest.raises(InputError, match=rf"{name}: 0 is below 1"):
        Pool(**values)


def test_blocks_of_a_request_round_up() -> None:
    pool = Pool(100 * 16, 1, 16)
    assert [pool.blocks_of(tokens) for tokens in (1, 16, 17)] == [1, 1, 2]
    assert pool.requests_of(17) == 50


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0, 0.9, 1, 1), "memory"),
        ((float("nan"), 0.9, 1, 1), "memory"),
        ((1, 0, 1, 1), "utilization"),
        ((1, 92, 1, 1), "utilization: 92 is not in"),
        ((1, 0.9, -1, 1), "weights"),
        ((24 * GiB, 0.9, 20 * GiB, 2 * GiB), "need 409.60 MiB more than there is"),
    ],
)
def test_memory_that_does_not_work_out(arguments: tuple[float, ...], named: str) -> None:
    with pytest.raises(InputError, match=named):
        kv_bytes(*arguments)


def test_drain_and_runway_refuse_nonsense() -> None:
    with pytest.raises(InputError, match="decodes"):
        drain(-1, 16)
    with pytest.raises(InputError, match="blocks_per_step: 0"):
        runway(204, 0)


def test_the_watermark_truncates() -> None:
    assert watermark_blocks(0.01, 199) == 1
