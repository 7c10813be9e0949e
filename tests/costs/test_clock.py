"""The cost clock: exact sums, one rounding, and plans it cannot time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched import profiles
from kvsched.clock import CostClock, Ticks, Work
from kvsched.contract import Plan, Row
from kvsched.costs import model
from kvsched.costs.shapes import LLAMA_3_8B
from kvsched.engine import run
from kvsched.errors import InputError
from kvsched.log import Log
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival

H100 = profiles.load("h100-sxm")
CLOCK = CostClock(H100)


def plan(*rows: tuple[int, int]) -> Plan:
    """A plan of rows (start, count)."""
    made = [Row(str(i), start, count, ()) for i, (start, count) in enumerate(rows)]
    return Plan({str(i): n for i, (_, n) in enumerate(rows)}, read_rows=lambda _: made)


def test_ticks() -> None:
    assert Ticks().duration(plan((0, 8192))) == 1


def test_the_coefficients_are_whole_femtoseconds() -> None:
    assert (CLOCK.base_fs, CLOCK.prefill_fs, CLOCK.attention_fs, CLOCK.context_fs) == (
        5_900_000_000_000,
        18_800_000_000,
        435_000,
        43_000_000,
    )
    assert not CLOCK.scaled


def test_a_prompt_prefilled_at_once() -> None:
    # 5.9 ms + 8192 · 18.8 µs + 8192² · 0.435 ns
    assert CLOCK.duration(plan((0, 8192))) == 189_101_956


def test_decodes_pay_for_the_tokens_they_attend_to() -> None:
    # 5.9 ms + 64 · 4096 · 43 ns; the new token attends to itself too.
    assert CLOCK.duration(plan(*[(4095, 1)] * 64)) == 17_172_192


def test_a_mixed_pass_adds_up() -> None:
    assert CLOCK.duration(plan((99, 1), (1000, 500))) == round(
        5_900_000 + 100 * 43 + 500 * 18_800 + Fraction("0.435") * (1500**2 - 1000**2)
    )


def test_nothing_scheduled_takes_the_base() -> None:
    assert CLOCK.duration(Plan()) == 5_900_000


@given(st.lists(st.integers(2, 3000), min_size=1, max_size=20))
def test_chunks_pay_the_attention_of_the_whole(counts: list[int]) -> None:
    starts = [sum(counts[:i]) for i in range(len(counts))]
    chunks = sum(map(CLOCK.duration, map(plan, zip(starts, counts, strict=True))))
    whole = CLOCK.duration(plan((0, sum(counts))))
    base = 5_900_000 * (len(counts) - 1)
    assert abs(chunks - base - whole) <= len(counts)  # a nanosecond of rounding for each chunk


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5)), max_size=300))
def test_one_rounding_of_an_exact_sum(rows: list[tuple[int, int]]) -> None:
    exact = Fraction(5_900_000)
    for start, count in rows:
        if count == 1:
            exact += 43 * (start + 1)
        else:
            exact += 18_800 * count + Fraction(435, 1000) * ((start + count) ** 2 - start**2)
    assert CLOCK.duration(plan(*rows)) == (exact + Fraction(1, 2)).__floor__()


def test_a_run_takes_the_sum_of_its_steps() -> None:
    """32 tokens prefilled, then two decodes that attend to 33 and 34 tokens."""
    log = Log()
    scheduler = Scheduler(Config(num_gpu_blocks=10), log)
    arrival = Arrival(7, Request("a", ((0, 32),), max_tokens=3))
    outcome = run(scheduler, [arrival], log, CLOCK)
    prefill = CLOCK.duration(plan((0, 32)))
    decodes = [5_900_000 + 43 * context for context in (33, 34)]
    assert log.times == [7, 7 + prefill, 7 + prefill + decodes[0]]
    assert outcome.now == 7 + prefill + sum(decodes)


def test_another_model_is_scaled_and_says_so() -> None:
    clock = CostClock(H100, model("Qwen2.5-7B"))
    assert clock.scaled
    assert clock.context_fs == 43_000_000 * 57_344 // 131_072
    assert clock.attention_fs == round(Fraction(435_000 * 28 * 28, 32 * 32))
    assert clock.duration(plan((0, 2048))) < CLOCK.duration(plan((0, 2048)))


def test_naming_the_profiles_own_model_changes_nothing() -> None:
    clock = CostClock(H100, LLAMA_3_8B)
    assert not clock.scaled
    assert clock.base_fs == CLOCK.base_fs


def test_a_plan_without_rows_cannot_be_timed() -> None:
    with pytest.raises(InputError, match="no rows"):
        CLOCK.duration(Plan({"a": 3}))


def test_a_profile_without_step_costs() -> None:
    with pytest.raises(InputError, match=r"profile h100-sxm: no step costs"):
        CostClock(replace(H100, step=None))


def test_a_model_of_other_element_size() -> None:
    with pytest.raises(InputError, match="4 bytes per element"):
        CostClock(H100, replace(LLAMA_3_8B, dtype_bytes=4))


def test_a_step_takes_at_least_a_nanosecond() -> None:
    clock = CostClock(H100)
    clock.base_fs = 0
    assert clock.nanoseconds(Work(0, 0, 0)) == 1
