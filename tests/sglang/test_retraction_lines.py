"""Retraction lines, read: the decode steps between two of them, and lines that cannot be."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvsched.cases import retracted_in_flight
from kvsched.cases.feedback import RUN_TO_MAX, SMALL, steady
from kvsched.errors import InputError
from kvsched.log import Level, Log
from kvsched.sglang import Config, Scheduler, rebuild
from kvsched.sglang.decodes import decode_passes, server_lines
from kvsched.sglang.events import Retract
from kvsched.sglang.ratio import NewTokenRatio
from kvsched.sglang.retraction_lines import Retraction, between, parse, retractions

LOGS = Path(__file__).parents[2] / "labs" / "data" / "logs"
LINE = "[2026-09-13 16:06:07 TP0] KV cache pool is full. #new_token_ratio: {} -> {}"


def logged(name: str) -> list[Retraction]:
    return retractions((LOGS / name).read_text(encoding="utf-8"))


def line(old: str, new: str = "0.5000", at: str = "16:06:07") -> Retraction:
    return parse(LINE.format(old, new).replace("16:06:07", at))


class TestRead:
    """Lines of real servers, and what is none."""

    def test_every_rank_prints_its_copy_and_the_event_counts_once(self) -> None:
        ratios = [(r.old, r.new) for r in logged("104-sglang-decode-oom-tp16.log")]
        assert ratios == [(0.1474, 0.1845), (0.098, 0.1919), (0.1207, None)]

    def test_five_retractions_in_two_seconds(self) -> None:
        found = logged("112-sglang-q2-retract-burst.log")
        steps = [between(*pair).steps for pair in pairwise(found)]
        assert steps == [(10, 10), (10, 10), (12, 12), (12, 12)]

    def test_a_time_of_day_alone_will_do(self) -> None:
        assert parse("[00:00:01] #new_token_ratio: 0.1000 -> 0.2000").at.second == 1

    @pytest.mark.parametrize(
        "text", ["", "no time #new_token_ratio: 0.1000 -> 0.2000", "[00:00:01] Decode batch"]
    )
    def test_another_line_is_named(self, text: str) -> None:
        with pytest.raises(InputError, match=r"retraction line: .* is none; give a line with"):
            parse(text)

    def test_an_impossible_time_is_named(self) -> None:
        with pytest.raises(InputError, match="'29:00:61' is no time"):
            parse("[29:00:61] #new_token_ratio: 0.1000 -> 0.2000")

    @given(st.text())
    @example("[00:00:00] #new_token_ratio: 9.9999 -> 9.9999")
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        with suppress(InputError):
            parse(text)


class TestBetween:
    """From the value assigned to the value found."""

    def test_on_the_floor_there_is_no_upper_end(self) -> None:
        first, second, _ = logged("104-sglang-decode-oom-tp16.log")
        found = between(first, second)
        assert found.decays == (87, None)
        assert found.step_seconds == (0.0, 13 / 88)

    @pytest.mark.parametrize(
        ("first", "second", "message"),
        [
            (line("0.1"+"000"), line("0.4"+"000", at="16:06:06"), "second line: it is 1 s older"),
            (line("0.1000"), line("0.6000"), "the ratio rose, 0.5000 -> 0.6000: there was"),
            (line("0.1000"), line("0.0500"), "0.0500 is below the floor of 0.0980"),
            (line("0.1000"), line("0.4515"), r"0.5000 -> 0.4515 is 48.34 decays of 0.0010033"),
            (line("0.1000")._replace(new=None), line("0.4000"), "first line: it is cut off"),
        ],
    )  # fmt: skip
    def test_what_no_pair_can_print_is_named(
        self, first: Retraction, second: Retraction, message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            between(first, second)

    def test_without_a_slope_no_time_can_be_read(self) -> None:
        with pytest.raises(InputError, match="does not decay"):
            between(line("0.0000"), line("0.5000"), schedule_conservativeness=0.0)

    @given(
        start=st.integers(0, 10_000), count=st.integers(0, 2000),
        conservativeness=st.sampled_from([0.3, 0.5, 1.0, 1.4, 2.0]),
    )  # fmt: skip
    def test_as_many_decays_as_there_were_are_among_those_found(
        self, start: int, count: int, conservativeness: float
    ) -> None:
        ratio = NewTokenRatio(Config(1, schedule_conservativeness=conservativeness))
        ratio.current = start / 10_000
        for _ in range(count):
            ratio.decay_step()
        first, second = line("0.1000", f"{start / 10_000:.4f}"), line(f"{ratio.current:.4f}")
        least, most = between(first, second, conservativeness).decays
        assert least <= count
        assert most is None or count <= most

    @given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 100))
    def test_bounds_are_in_order_or_the_pair_is_refused(
        self, new: int, old: int, apart: int
    ) -> None:
        first = line("0.1000", f"{new / 10_000:.4f}")
        second = line(f"{old / 10_000:.4f}")
        try:
            found = between(first, second._replace(at=second.at + timedelta(seconds=apart)))
        except InputError:
            return
        low, high = found.step_seconds
        assert 0 <= low < high


class TestDecodePasses:
    """The small fold against the rebuilt iterations."""

    @pytest.mark.parametrize("lag", [0, 1])
    def test_it_counts_what_the_iterations_show(self, lag: int) -> None:
        log = retracted_in_flight() if lag else steady(0.3, RUN_TO_MAX, SMALL._replace(requests=60))
        pool = log.config["max_total_tokens"]
        found = list(decode_passes(log))
        wanted = [it for it in rebuild(log) if it.kind == "decode"]
        assert any(each.retraction for each in found)
        assert [(f.step, f.running, f.waiting, f.ratio, f.found) for f in found] == [
            (it.step, len(it.rows), len(it.waiting), it.ratio, it.ratio_before) for it in wanted
        ]
        held = [pool - it.free_end - it.evictable_end for it in wanted]
        assert lag or [f.used for f in found] == held
        assert [f.retraction for f in found if f.retraction] == [
            event for it in wanted for event in it.of(Retract)
        ]

    def test_milestones_alone_do_not_tell_them(self) -> None:
        log = Log(Level.METRICS)
        Scheduler(Config(16), log)
        with pytest.raises(InputError, match="milestones"):
            list(decode_passes(log))


def test_the_lines_of_a_run_are_lines_of_a_server() -> None:
    """Read back, they give the decode steps between its retractions."""
    log = steady(0.3, RUN_TO_MAX, SMALL._replace(requests=60))
    lines = list(server_lines(log))
    read = retractions("\n".join(lines))
    places = [i for i, each in enumerate(decode_passes(log)) if each.retraction]
    assert len(read) == len(places) > 2
    for pair, (one, other) in zip(pairwise(read), pairwise(places), strict=True):
        least, most = between(*pair, schedule_conservativeness=0.3).steps
        assert least <= other - one <= (most or other)
    decoding = [each for each in lines if "Decode batch" in each]
    assert len(decoding) == len(list(decode_passes(log))) // 40
    assert decoding[0].startswith("[00:00:00] Decode batch, #running-req: 38, #token: ")
