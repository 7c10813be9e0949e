"""The contract's own list of what must be tested, item by item."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvsched import conform
from kvsched.conform import document
from kvsched.conform.reserve import load, records
from kvsched.contract import Plan
from kvsched.engine import Engine
from kvsched.reserve import Config, Records, Scheduler, as_json, from_json
from kvsched.reserve.records import (
    AdmissionBlocked,
    Admitted,
    CancelIgnored,
    Cancelled,
    Completed,
    Dispatch,
    DispatchDone,
    Record,
    Rejected,
    Released,
    Snapshot,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "reserve"
CASES = sorted(GOLDEN.glob("*.json"))


def of(kind: type, found: list[Record]) -> list[Any]:
    return [record for record in found if isinstance(record, kind)]


def parts(found: list[Record]) -> list[tuple[int, list[tuple[str, str, int]]]]:
    return [(r.t, [tuple(part) for part in r.rows]) for r in of(Dispatch, found)]


class TestExactCounts:
    """Prefill and decode tokens of every dispatch."""

    def test_a_prompt_is_cut_into_chunks_and_each_output_but_the_first_is_one_decode(
        self, play: Any
    ) -> None:
        found = play("0 a 10 3", chunk=4)
        assert parts(found) == [
            (0, [("a", "prefill", 4)]),
            (1, [("a", "prefill", 4)]),
            (2, [("a", "prefill", 2)]),
            (3, [("a", "decode", 1)]),
            (4, [("a", "decode", 1)]),
        ]
        emitted = [r.emitted for r in of(DispatchDone, found)]
        assert emitted == [(), (), ("a",), ("a",), ("a",)]

    def test_decodes_come_first_and_the_prefill_gets_what_is_left(self, play: Any) -> None:
        found = play("0 a 1 4", "1 b 9 1", max_tokens=4)
        assert parts(found)[1:] == [
            (1, [("a", "decode", 1), ("b", "prefill", 3)]),
            (2, [("a", "decode", 1), ("b", "prefill", 3)]),
            (3, [("a", "decode", 1), ("b", "prefill", 3)]),
        ]

    def test_a_prefill_that_ends_does_not_decode_in_the_same_dispatch(self, play: Any) -> None:
        found = play("0 a 4 2")
        assert parts(found) == [(0, [("a", "prefill", 4)]), (1, [("a", "decode", 1)])]

    def test_the_starting_row_rotates(self, play: Any) -> None:
        found = play("0 a 1 4", "0 b 1 4", "0 c 1 4")
        rows = ["".join(i for i, _, _ in row) for _, row in parts(found)]
        assert rows == ["abc", "abc", "bca", "cab"]


class TestOneTokenOutputs:
    """The last output never enters KV."""

    def test_four_in_and_one_out_fill_one_block_and_need_no_decode(self, play: Any) -> None:
        found = play("0 a 4 1", blocks=1)
        assert of(Admitted, found)[0].reserve == 1
        assert parts(found) == [(0, [("a", "prefill", 4)])]
        assert of(Completed, found) == [Completed(1, "a")]

    @pytest.mark.parametrize(("prompt", "output", "blocks"), [(4, 1, 1), (4, 2, 2), (1, 8, 2)])
    def test_the_last_output_takes_no_room(
        self, play: Any, prompt: int, output: int, blocks: int
    ) -> None:
        assert of(Admitted, play(f"0 a {prompt} {output}"))[0].reserve == blocks


class TestPromises:
    """A reservation is a credit, not an allocation."""

    def test_a_request_waits_while_pages_are_free_because_they_are_promised(
        self, play: Any
    ) -> None:
        found = play("0 a 1 8", "0 b 4 1", blocks=2)
        assert of(AdmissionBlocked, found) == [AdmissionBlocked(0, "b", "credits", 1, 2, 0, 2, 2)]

    def test_the_head_blocks_who_would_fit(self, play: Any) -> None:
        found = play("0 a 1 8", "0 b 9 1", "0 c 1 1", blocks=4)
        assert [r.id for r in of(Admitted, found)] == ["a", "b", "c"]
        assert {r.id for r in of(AdmissionBlocked, found)} == {"b"}

    def test_serial_admits_nobody_beside_another(self, play: Any) -> None:
        found = play("0 a 4 2", "0 b 4 2", policy="serial")
        assert of(AdmissionBlocked, found)[0].binding == "serial"
        assert all(r.active == 1 for r in of(Snapshot, found))


class TestDelayedRelease:
    """Pages drain before they are free."""

    def test_pages_stay_away_for_the_delay_and_hold_the_next_one_back(self, play: Any) -> None:
        found = play("0 a 4 1", "0 b 4 1", blocks=1, release_delay=5)
        assert of(Released, found)[0] == Released(6, "a", 1)
        assert [r.binding for r in of(AdmissionBlocked, found)] == ["credits", "draining"]
        assert of(Admitted, found)[1].t == 6

    def test_delay_nought_is_usable_at_the_same_boundary(self, play: Any) -> None:
        found = play("0 a 4 1", "0 b 4 1", blocks=1)
        assert [r.t for r in of(Admitted, found)] == [0, 1]

    def test_the_clock_jumps_over_a_long_delay(self, play: Any) -> None:
        found = play("0 a 4 1", "0 b 4 1", blocks=1, release_delay=10**9)
        assert of(Admitted, found)[1].t == 10**9 + 1


class TestCancellation:
    """Queued, active, and in a race with completion."""

    def test_queued(self, play: Any) -> None:
        found = play("0 a 4 4", "0 b 4 4", "2 cancel b", blocks=2)
        assert of(Cancelled, found) == [Cancelled(2, "b", "queued", 0)]
        assert [r.id for r in of(Admitted, found)] == ["a"]

    def test_active(self, play: Any) -> None:
        found = play("0 a 4 8", "3 cancel a")
        assert of(Cancelled, found) == [Cancelled(3, "a", "active", 3)]
        assert of(Released, found) == [Released(3, "a", 2)]

    def test_active_gives_up_its_promise_at_once_and_its_pages_later(self, play: Any) -> None:
        found = play("0 a 4 13", "0 b 9 1", "1 cancel a", blocks=4, release_delay=9)
        assert of(Admitted, found)[1] == Admitted(1, "b", 3)
        assert of(Released, found)[0] == Released(10, "a", 1)

    def test_an_arrival_can_be_cancelled_at_its_own_tick(self, play: Any) -> None:
        found = play("0 cancel a", "0 a 4 1")
        assert of(Cancelled, found) == [Cancelled(0, "a", "queued", 0)]
        assert not of(Admitted, found)

    def test_completion_wins_a_race(self, play: Any) -> None:
        found = play("0 a 4 1", "1 cancel a")
        assert of(CancelIgnored, found) == [CancelIgnored(1, "a", "completed")]
        assert of(Completed, found) == [Completed(1, "a")]

    def test_one_tick_earlier_cancellation_wins(self, play: Any) -> None:
        found = play("0 a 4 2", "1 cancel a")
        assert of(Cancelled, found) == [Cancelled(1, "a", "active", 1)]
        assert not of(Completed, found)

    @pytest.mark.parametrize(
        ("trace", "reason"),
        [
            (["0 cancel x"], "unknown"),
            (["0 x 400 1", "1 cancel x"], "rejected"),
            (["0 x 4 4", "1 cancel x", "2 cancel x"], "cancelled"),
        ],
    )
    def test_what_is_over_is_not_cancelled(self, play: Any, trace: list[str], reason: str) -> None:
        assert [r.reason for r in of(CancelIgnored, play(*trace))] == [reason]


def test_more_than_the_pool_is_rejected_and_blocks_nobody(play: Any) -> None:
    found = play("0 a 33 1", "0 b 32 1")
    assert of(Rejected, found) == [Rejected(0, "a", 9, 8)]
    assert [r.id for r in of(Admitted, found)] == ["b"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_worked_trace_gives_its_records(path: Path) -> None:
    content = document.read(path)
    assert [as_json(r) for r in records(*load(path, content))] == content["records"]


def test_there_are_seventy_worked_traces_sixty_of_them_seeded() -> None:
    assert len(CASES) == 70
    assert sum(path.stem.startswith("rand_") for path in CASES) == 60


def test_records_come_back_from_their_json() -> None:
    path = GOLDEN / "rand_068.json"
    found = records(*load(path, document.read(path)))
    assert [from_json(json.loads(json.dumps(as_json(r)))) for r in found] == found


FINGERPRINT = """
import hashlib, json, sys
from pathlib import Path
from kvsched.conform import document
from kvsched.conform.reserve import load, records
from kvsched.reserve import as_json
for name in sys.argv[1:]:
    path = Path(name)
    lines = [json.dumps(as_json(r)) for r in records(*load(path, document.read(path)))]
    print(hashlib.sha256("\\n".join(lines).encode()).hexdigest())
"""


def test_the_records_do_not_depend_on_the_hash_seed() -> None:
    names = [str(GOLDEN / f"{name}.json") for name in ("rand_068", "rand_116", "rotation")]
    out = [
        subprocess.run(
            [sys.executable, "-c", FINGERPRINT, *names],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "4242")
    ]
    assert out[0] == out[1]
    assert len(out[0].split()) == 3


def random_trace(rng: random.Random) -> list[str]:
    """Thirty requests and some cancellations, in order of time."""
    lines = []
    for i in range(30):
        lines.append(f"{rng.randint(0, 40)} r{i} {rng.randint(1, 20)} {rng.randint(1, 12)}")
        if rng.random() < 0.3:
            lines.append(f"{rng.randint(0, 60)} cancel r{rng.randint(0, 31)}")
    return sorted(lines, key=lambda line: int(line.split()[0]))


@pytest.mark.parametrize("seed", range(64))
def test_a_finite_workload_ends_and_every_request_has_one_end(play: Any, seed: int) -> None:
    rng = random.Random(seed)
    knobs = {
        "policy": rng.choice(["serial", "continuous"]),
        "blocks": rng.randint(2, 12),
        "max_tokens": rng.randint(1, 20),
        "max_rows": rng.randint(1, 6),
        "chunk": rng.randint(1, 9),
        "release_delay": rng.choice([0, 1, 7]),
    }
    found = play(*random_trace(rng), **knobs)
    ends = Counter(r.id for r in found if isinstance(r, Rejected | Completed | Cancelled))
    assert set(ends.values()) == {1}
    assert len(ends) == 30
    assert all(r.credits + r.draining <= knobs["blocks"] for r in of(Snapshot, found))
    assert sum(r.pages for r in of(Released, found)) > 0


def test_any_loop_may_drive_it() -> None:
    """The engine's own loop, which does not jump, writes the same."""
    path = GOLDEN / "drain_blocks.json"
    config, lines = load(path, document.read(path))
    log = Records()
    engine = Engine(Scheduler(config, log), [line.event for line in lines], log)
    while not engine.done:
        plan = engine.step()
        assert isinstance(plan, Plan)
    assert log.kept == records(config, lines)


@pytest.mark.parametrize(
    ("knobs", "field"),
    [
        ({"policy": "best"}, "policy"),
        ({"blocks": 0}, "blocks"),
        ({"chunk": True}, "chunk"),
        ({"release_delay": -1}, "release_delay"),
        ({"prefix_cache": 1}, "prefix_cache"),
        ({"batch_wait": 3}, "batch_wait"),
    ],
)
def test_a_bad_knob_is_named(knobs: dict[str, Any], field: str) -> None:
    with pytest.raises(conform.recording.InputError) as error:
        Config(**knobs)
    assert error.value.place == field
