"""Orders of SGLang's queue that no recorded engine has: what they bound, and what they do not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsched import cases
from kvsched.cases.starving import COLD, SHARED
from kvsched.engine import run
from kvsched.errors import InputError
from kvsched.log import Admit, Arrive, Log
from kvsched.request import Request
from kvsched.sglang import Config, Scheduler
from kvsched.sglang.events import Opening
from kvsched.sglang.policy import LPM_LIMIT, SchedulePolicy
from kvsched.sglang.req import Req
from kvsched.whatif import HRRN, AgedLPM
from kvsched.workload import Arrival

MOST = 1000
"""The longest prefix that anybody finds in the queues drawn here."""
LPM = Config(10**6, schedule_policy="lpm")


class Drawn(SchedulePolicy):
    """Finds a new random prefix for everyone in every pass, and may deprioritise anybody."""

    puts_last = False

    def match_prefixes(self, waiting: Sequence[Req]) -> None:
        """None, the longest, or anything between."""
        for r in waiting:
            r.num_matched_prefix_tokens = self.random.choice(
                (0, MOST, self.random.randint(0, MOST))
            )
            if self.puts_last and self.random.random() < 0.2:
                self.deprioritized.add(r.id)


class PutsLast(Drawn):
    """Deprioritises one in five."""

    puts_last = True


def queue(policy: type[SchedulePolicy], credit: int, seed: int) -> AgedLPM:
    """An aged scheduler over drawn prefixes."""
    kind = type("Aged", (AgedLPM,), {"policy_class": policy})
    scheduler = kind(Config(10**6, schedule_policy="lpm", seed=seed), Log(), credit)
    assert isinstance(scheduler, AgedLPM)
    return scheduler


ENTRIES = itertools.count(1)


def asked(name: str, tokens: int = 2000) -> Req:
    r = Req(Request(name, ((0, tokens),), 1), LPM)
    r.entry_order = next(ENTRIES)
    return r


PASSES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=5, max_size=60)
"""How many come before each pass, and how many the pass admits."""


def overtakings(scheduler: AgedLPM, passes: Sequence[tuple[int, int]]) -> list[tuple[int, bool]]:
    """For each pair out of the order of arrival: passes between, and was who is passed put last."""
    waiting: list[Req] = []
    first: dict[str, int] = {}
    place: dict[str, int] = {}
    found = []
    sorts = 0
    for come, go in passes:
        for _ in range(come):
            name = f"r{len(place)}"
            place[name] = len(place)
            waiting.append(asked(name))
        scheduler.policy.sort(waiting, [])
        if len(waiting) <= LPM_LIMIT:
            sorts += 1
        last = scheduler.policy.deprioritized
        for r in waiting:
            first.setdefault(r.id, sorts)
        for i, r in enumerate(waiting):
            found += [
                (first[before.id] - first[r.id], r.id in last)
                for before in waiting[:i]
                if place[before.id] > place[r.id]
            ]
        del waiting[:go]
    return found


class TestAgedLPM:
    """The bound of its docstring, and where it ends."""

    @settings(max_examples=60, deadline=None)
    @given(PASSES, st.integers(1, 1500), st.integers(0, 2**20))
    def test_nobody_is_passed_by_who_comes_later_than_the_bound(
        self, passes: list[tuple[int, int]], credit: int, seed: int
    ) -> None:
        found = overtakings(queue(Drawn, credit, seed), passes)
        assert all(behind < -(-MOST // credit) for behind, _ in found)

    @settings(max_examples=60, deadline=None)
    @given(PASSES, st.integers(1, 1500), st.integers(0, 2**20))
    def test_who_is_put_last_has_the_bound_again_when_it_is_not(
        self, passes: list[tuple[int, int]], credit: int, seed: int
    ) -> None:
        found = overtakings(queue(PutsLast, credit, seed), passes)
        assert all(behind * credit <= MOST for behind, last in found if not last)

    def test_put_last_the_bound_does_not_hold(self) -> None:
        found = overtakings(queue(PutsLast, MOST, 1), [(3, 0)] * 20)
        assert max(behind for behind, last in found if last) > 10

    @pytest.mark.parametrize("credit", [0, -1])
    def test_a_credit_that_bounds_nothing_is_refused(self, credit: int) -> None:
        with pytest.raises(InputError, match=r"credit: .* bound nothing; give 1 or more"):
            AgedLPM(Config(100), credit=credit)

    @pytest.mark.parametrize("credit", [10, 99, 100, 101, 1000, 5000])
    def test_the_bound_is_reached(self, credit: int) -> None:
        bound = -(-MOST // credit)
        scheduler = queue(SchedulePolicy, credit, 0)
        cold, passed = asked("cold"), []
        for behind in range(bound + 2):
            hot = asked(f"hot {behind}")
            hot.num_matched_prefix_tokens = MOST
            waiting = [cold, hot]
            scheduler.aged(waiting, [])
            passed.append(waiting[0] is hot)
        assert passed == [True] * bound + [False, False]

    @settings(max_examples=12, deadline=None)
    @given(
        st.integers(100, 1500),
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), min_size=20, max_size=60),
        st.sampled_from((1, 16)),
        st.sampled_from((256, 8192)),
    )
    def test_on_the_twin_with_its_tree_and_pool(
        self, credit: int, hot: list[tuple[int, int]], page: int, chunk: int
    ) -> None:
        """Hot requests that share up to 30 hundred tokens, one cold one among the first."""
        arrivals, at = [Arrival(3, Request("cold", ((10**9, 1500),), 8, 3))], 0
        for i, (gap, hundreds) in enumerate(hot):
            at += gap
            prompt = ((0, 100 * hundreds + 1), (10**6 * (i + 1), 50))
            arrivals.append(Arrival(at, Request(f"h{i}", prompt, 8, at)))
        log = Log()
        config = Config(
            6000,
            page_size=page,
            max_running_requests=4,
            chunked_prefill_size=chunk,
            schedule_policy="lpm",
        )
        scheduler = Spy(config, log, credit)
        assert run(scheduler, arrivals, log).verdict == "all_done"
        assert not scheduler.put_last
        come = {e.event.id: e.step for e in log.of(Arrive)}
        gone = {e.event.id: e.step for e in log.of(Admit)}
        passes = [e.step for e in log.of(Opening)]
        for name, at in come.items():
            if at > come["cold"] and gone[name] < gone["cold"]:
                between = sum(come["cold"] <= step < at for step in passes)
                assert between < max(1, -(-scheduler.most // credit))

    def test_a_queue_above_the_limit_gives_no_credit_and_passes_nobody(self) -> None:
        scheduler = queue(Drawn, 100, 0)
        waiting = [asked(f"r{i}") for i in range(LPM_LIMIT + 1)]
        before = waiting.copy()
        for _ in range(3):
            scheduler.policy.sort(waiting, [])
        assert waiting == before
        assert not scheduler.passes

    def test_who_left_the_queue_starts_from_nothing(self) -> None:
        scheduler = queue(Drawn, 100, 0)
        a, b = asked("a"), asked("b")
        for waiting in ([a, b], [a, b], [b], [a, b]):
            scheduler.policy.sort(waiting, [])
        assert [scheduler.passes[r.entry_order] for r in (a, b)] == [0, 3]

    def test_a_client_that_asks_again_by_the_same_id_starts_from_nothing(self) -> None:
        """Cancelled and sent anew between two passes, it may not bring its credit along."""
        scheduler = queue(SchedulePolicy, 1000, 0)
        a, b = asked("a"), asked("b")
        for _ in range(3):
            scheduler.aged([a, b], [])
        again = asked("a")
        again.num_matched_prefix_tokens = MOST
        waiting = [b, again]
        scheduler.aged(waiting, [])
        assert waiting == [b, again]
        assert [scheduler.passes[r.entry_order] for r in waiting] == [3, 0]


class Spy(AgedLPM):
    """Remembers the longest prefix found, and whether the cold request was ever put last."""

    most, put_last = 0, False

    def aged(self, waiting: list[Req], running: Sequence[Req]) -> None:
        super().aged(waiting, running)
        self.most = max([self.most, *(r.num_matched_prefix_tokens for r in waiting)])
        self.put_last |= "cold" in self.policy.deprioritized


class TestHRRN:
    """The order by wait for each uncached token."""

    def order(self, *waiting: tuple[str, int, int, int]) -> list[str]:
        """The order of (name, prompt, cached, since) at time 100."""
        scheduler = HRRN(LPM, Log())
        scheduler.now = 100
        reqs = []
        for name, prompt, cached, since in waiting:
            r = asked(name, prompt)
            r.num_matched_prefix_tokens, r.wait_queue_entry_time = cached, since
            reqs.append(r)
        scheduler.by_response_ratio(reqs, [])
        return [r.id for r in reqs]

    def test_short_goes_before_long_that_came_with_it(self) -> None:
        assert self.order(("long", 1000, 0, 50), ("short", 100, 0, 50)) == ["short", "long"]

    def test_long_goes_first_once_it_has_waited_as_many_times_longer(self) -> None:
        assert self.order(("short", 100, 0, 96), ("long", 1000, 0, 50)) == ["long", "short"]

    def test_what_is_cached_is_no_service(self) -> None:
        assert self.order(("short", 100, 0, 50), ("long", 1000, 950, 50)) == ["long", "short"]

    def test_equals_stay_as_they_stand(self) -> None:
        assert self.order(("b", 100, 0, 50), ("a", 200, 0, 0), ("c", 100, 0, 50)) == list("bac")

    @settings(deadline=None)
    @given(st.integers(1, 5000), st.lists(st.tuples(st.integers(10, 5000), st.integers(0, 90))))
    def test_nobody_passes_who_has_waited_long_enough(
        self, tokens: int, others: list[tuple[int, int]]
    ) -> None:
        longest = max([0, *(waited for _, waited in others)])
        shortest = min([tokens, *(prompt for prompt, _ in others)])
        waited = longest * tokens // shortest + 1
        rest = [(f"o{i}", prompt, 0, 100 - w) for i, (prompt, w) in enumerate(others)]
        assert self.order(*rest, ("c", tokens, 0, 100 - waited))[0] == "c"

    def test_where_more_comes_than_can_be_served_it_bounds_nothing(self) -> None:
        """Short prompts at twice the rate: the long one waits as long as they come."""
        waits = []
        for count in (20, 40, 80):
            short = [Arrival(i // 2, Request(f"s{i}", ((9000 * i, 10),), 1)) for i in range(count)]
            long = Arrival(1, Request("long", ((10**9, 5000),), 1))
            log = Log()
            config = Config(10**5, schedule_policy="lpm", prefill_max_requests=1)
            run(HRRN(config, log), [*short, long], log)
            waits.append(next(e.step for e in log.of(Admit) if e.event.id == "long"))
        assert waits == [20, 40, 80]


aged = partial(AgedLPM, credit=10_000)
BOUND = -(-SHARED // 10_000)


def case_17(streams: Sequence[int]) -> None:
    fcfs = [cases.cold_wait(cases.cold_request(n, "fcfs")) for n in streams]
    lpm = [cases.cold_wait(cases.cold_request(n, "lpm")) for n in streams]
    bounded = [cases.cold_request(n, "lpm", aged) for n in streams]
    assert len(set(fcfs)) == 1
    grown = zip(pairwise(streams), pairwise(lpm), strict=True)
    assert all(after - before >= 4 * (n - m) for (m, n), (before, after) in grown)
    assert len({cases.cold_wait(log) for log in bounded}) == 1
    assert fcfs[0] < cases.cold_wait(bounded[0]) < lpm[0]
    for log in bounded:
        assert 0 < max(behind_cold(log)) < BOUND


def behind_cold(log: Log) -> list[int]:
    """For each that came after the cold request and went first: passes between their first."""
    come = {e.event.id: e.step for e in log.of(Arrive)}
    gone = {e.event.id: e.step for e in log.of(Admit)}
    passes = [e.step for e in log.of(Opening)]
    return [
        sum(come[COLD] <= step < at for step in passes)
        for name, at in come.items()
        if at > come[COLD] and gone[name] < gone[COLD]
    ]


def test_case_17_a_cold_request_among_hot_ones() -> None:
    case_17([30, 60])


@pytest.mark.slow
def test_case_17_at_full_length() -> None:
    case_17([40, 100, 200, 400])


def shortest_to_longest(policy: str, make: type[Scheduler], count: int, seed: int) -> float:
    found = cases.sizes_at_saturation(policy, make, count, seed)
    return found[0].slowdown / found[-1].slowdown


def test_case_18_first_come_first_served_is_unfair_to_the_short() -> None:
    assert shortest_to_longest("fcfs", Scheduler, 200, 0) > 5
    assert shortest_to_longest("lpm", HRRN, 200, 0) < 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_case_18_at_full_length(seed: int) -> None:
    assert shortest_to_longest("fcfs", Scheduler, 1000, seed) > 5
    assert shortest_to_longest("lpm", HRRN, 1000, seed) < 2
