"""Two queues, the same verbs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched.queues import Ranked, make_queue


class Person(Ranked):
    """Somebody with a key."""

    def __init__(self, name: str, priority: int = 0, arrival_time: int = 0) -> None:
        self.id, self.priority, self.arrival_time = name, priority, arrival_time


def names(queue: object) -> list[str]:
    return [person.id for person in queue]  # type: ignore[attr-defined]


keys = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 2)), max_size=12)


def people(pairs: list[tuple[int, int]]) -> list[Person]:
    return [Person(f"r{i}", *pair) for i, pair in enumerate(pairs)]


def test_fcfs_serves_in_order_of_arrival_whatever_the_key() -> None:
    queue = make_queue("fcfs", [Person("a", 5), Person("b", 0)])
    assert names(queue) == ["a", "b"]
    assert (queue.peek().id, queue.pop().id, queue.peek().id) == ("a", "a", "b")


def test_fcfs_puts_victims_in_front_in_their_old_order() -> None:
    queue = make_queue("fcfs", [Person("waiting")])
    for victim in ("last", "first"):  # thrown out from the tail
        queue.requeue(Person(victim))
    assert names(queue) == ["first", "last", "waiting"]


def test_priority_serves_by_priority_then_arrival_then_id_as_a_string() -> None:
    everybody = [Person("b9"), Person("b10"), Person("a", 1), Person("c", -1, 9), Person("d", 0, 1)]
    queue = make_queue("priority", everybody)
    assert names(queue) == ["c", "b10", "b9", "d", "a"]


def test_priority_gives_a_victim_no_bonus() -> None:
    queue = make_queue("priority", [Person("a", 1)])
    queue.requeue(Person("b", 2))
    assert names(queue) == ["a", "b"]


@given(keys)
def test_priority_iterates_in_the_order_of_popping_and_changes_nothing(
    pairs: list[tuple[int, int]],
) -> None:
    queue = make_queue("priority", people(pairs))
    seen = names(queue)
    assert len(queue) == len(pairs)
    assert seen == [queue.pop().id for _ in pairs]
    assert seen == [
        p.id for p in sorted(people(pairs), key=lambda p: (p.priority, p.arrival_time, p.id))
    ]


@given(st.sampled_from(["fcfs", "priority"]), keys.filter(bool), st.data())
def test_one_who_leaves_changes_nobody_elses_order(
    policy: str, pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    everybody = people(pairs)
    queue = make_queue(policy, everybody)
    gone = data.draw(st.sampled_from(everybody))
    expected = [name for name in names(queue) if name != gone.id]
    queue.discard(gone)
    queue.discard(gone)
    assert names(queue) == expected


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_an_empty_queue_is_false(policy: str) -> None:
    queue = make_queue(policy)
    assert not queue
    queue.add(Person("a"))
    assert queue
    assert len(queue) == 1
