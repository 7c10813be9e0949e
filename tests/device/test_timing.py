"""In which order a measurement calls its device, and the laws fitted to what it finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched.device.fake import Fake
from kvsched.device.fit import latency_and_rate, linear_and_square
from kvsched.device.timing import captured, sample, side_by_side

positive = st.floats(1e-6, 1e6, allow_nan=False)


def test_warm_up_then_timed_runs_back_to_back_then_one_wait_before_the_first_read() -> None:
    fake = Fake()
    seconds = sample(fake, fake.takes("work", 0.25), warm_up=3, repeats=2)
    timed = ["start", "work", "stop"]
    assert fake.calls == [
        *["work"] * 3,
        "synchronize",
        *timed,
        *timed,
        "synchronize",
        *["read"] * 2,
    ]
    assert seconds == [0.25, 0.25]


def test_the_fake_refuses_to_be_read_before_it_has_finished() -> None:
    fake = Fake()
    timer = fake.timer()
    timer.start()
    fake.takes("work", 1.0)()
    timer.stop()
    with pytest.raises(AssertionError, match="read before synchronize"):
        timer.seconds()


def test_side_by_side_takes_as_long_as_the_longest() -> None:
    fake = Fake()
    side_by_side(fake, fake.takes("a", 1.0), fake.takes("b", 3.0))()
    assert fake.now == 3.0
    assert fake.calls == ["fork", "fork", "put", "a", "put", "b", "join", "join"]


def test_what_is_captured_ran_once_before_and_was_waited_for() -> None:
    fake = Fake()
    run = captured(fake, fake.takes("work", 1.0))
    assert fake.calls[:3] == ["work", "synchronize", "capture"]
    before = fake.now
    run()
    assert fake.now - before == 1.0


def test_the_fake_refuses_a_capture_while_work_is_under_way() -> None:
    fake = Fake()
    work = fake.takes("work", 1.0)
    work()
    with pytest.raises(AssertionError, match="under way"):
        fake.graph(work)


@given(latency=st.floats(1e-7, 1e-3), rate=st.floats(1e8, 1e12))
def test_a_law_is_found_again(latency: float, rate: float) -> None:
    sizes = [2**power for power in range(12, 31, 3)]
    fit = latency_and_rate([(size, latency + size / rate) for size in sizes])
    assert fit is not None
    assert fit.a == pytest.approx(latency, rel=1e-3)
    assert 1 / fit.b == pytest.approx(rate, rel=1e-3)
    assert fit.worst < 1e-6


def test_residuals_say_which_point_the_law_misses() -> None:
    points = [(1.0, 3.0), (2.0, 5.0), (4.0, 18.0), (8.0, 17.0)]  # 1 + 2x, but for the third
    fit = latency_and_rate(points)
    assert fit is not None
    assert max(range(4), key=lambda i: abs(fit.residuals[i])) == 2
    assert fit.residuals[2] < 0  # fitted below what was measured


@pytest.mark.parametrize(
    "points", [[], [(1.0, 1.0)], [(5.0, 1.0), (5.0, 2.0)], [(1.0, 2.0), (2.0, 1.0)]]
)
def test_points_that_tell_no_law_have_none(points: list[tuple[float, float]]) -> None:
    assert latency_and_rate(points) is None


@given(st.lists(st.tuples(positive, positive), max_size=6))
def test_whatever_the_points_both_terms_are_above_zero(points: list[tuple[float, float]]) -> None:
    for law in (latency_and_rate, linear_and_square):
        fit = law(points)
        assert fit is None or (fit.a > 0 and fit.b > 0 and len(fit.residuals) == len(points))
