"""Policies over the model: what a ranking of victims gives back, and what each costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched.errors import InputError
from kvsched.lifecycle import Tracked
from kvsched.lifecycle.rounds import Job, MostRecoverable, Rounds
from kvsched.views.lifecycle_victims import jobs, sweep


class NewFirst(Rounds):
    """Newcomers before those thrown out."""

    def order(self, waiting: list[str]) -> list[str]:
        return sorted(waiting, key=lambda name: name in self.model.requests)


class TwiceAtMost(Rounds):
    """Thrown out twice, it is spared while there is another."""

    def spared(self, request: Tracked) -> bool:
        return request.preemptions >= 2


def total(rounds: Rounds, field: str) -> int:
    return sum(getattr(account, field) for account in rounds.accounts.values())


def test_everybody_is_served_and_every_page_comes_back() -> None:
    rounds = Rounds(28, 4, jobs(4))
    accounts = rounds.run()
    assert {name: len(account.delivered) for name, account in accounts.items()} == {
        name: job.outputs for name, job in rounds.jobs.items()
    }
    assert sorted(rounds.model.allocator.free) == list(range(28))


def test_ranking_by_recoverable_pages_computes_less_again() -> None:
    by_length, by_pages = (kind(28, 4, jobs(4)) for kind in (Rounds, MostRecoverable))
    by_length.run(), by_pages.run()
    assert total(by_pages, "replay_rows") < total(by_length, "replay_rows") / 2


def test_the_longest_context_may_give_back_nothing() -> None:
    by_length, by_pages = (kind(24, 4, jobs(12)) for kind in (Rounds, MostRecoverable))
    by_length.run(), by_pages.run()
    nothing = [each for each in by_length.preemptions if not each.freed]
    assert {each.victim.split(".")[0] for each in nothing} == {"family"}
    assert min(each.held for each in nothing) >= 6
    assert all(each.freed for each in by_pages.preemptions)


def test_newcomers_first_shortens_the_wait_for_a_first_token_and_costs_rows() -> None:
    resumed, newcomers = (kind(24, 4, jobs(12)) for kind in (Rounds, NewFirst))
    first = [max(a.delivered[0] for a in each.run().values()) for each in (resumed, newcomers)]
    assert first[1] < first[0] / 2
    assert total(newcomers, "replay_rows") > total(resumed, "replay_rows")


def test_a_bound_lowers_the_worst_count() -> None:
    free, bound = (kind(24, 4, jobs(12)) for kind in (Rounds, TwiceAtMost))
    worst = [max(a.preemptions for a in each.run().values()) for each in (free, bound)]
    assert worst[1] < worst[0]


def test_rows_that_brought_no_token_are_wasted() -> None:
    rounds = Rounds(36, 4, jobs(4))
    rounds.run()
    assert 0 < total(rounds, "wasted_rows") < total(rounds, "replay_rows")


def test_the_longest_gap_is_what_the_client_sees() -> None:
    """Alone: the prompt's rows until the first token, then a row a token."""
    assert Rounds(9, 4, [Job("a", tuple(range(8)), 4)]).run()["a"].longest_gap == 8


def test_a_job_larger_than_the_pool_is_named() -> None:
    with pytest.raises(InputError, match="job a: it needs 5 of 4 pages"):
        Rounds(4, 2, [Job("a", (1, 2, 3), 7)])


@given(
    st.sampled_from([Rounds, MostRecoverable, NewFirst, TwiceAtMost]),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3)), max_size=5),
    st.integers(9, 14),
    st.integers(2, 4),
)
def test_any_jobs_end(
    kind: type[Rounds], sizes: list[tuple[int, int, int]], pages: int, size: int
) -> None:
    asked = [
        Job(f"{n}", tuple(range(prompt)), outputs, samples)
        for n, (prompt, outputs, samples) in enumerate(sizes)
    ]
    rounds = kind(pages, size, asked)
    for account in rounds.run().values():
        assert account.wasted_rows <= account.replay_rows
    served = sum(len(request.emitted) for request in rounds.model.requests.values())
    assert served == sum(job.outputs * job.samples for job in asked)
    assert len(rounds.model.allocator.free) == pages


def test_in_every_pool_the_ranking_by_pages_computes_less_again() -> None:
    data = sweep()
    by_length, by_pages = data["replayed"].values()
    assert all(a > b for a, b in zip(by_length, by_pages, strict=True))
    assert any(freed < held / 2 for held, freed in data["victims"]["longest context"])
