"""What is read off a replay's records."""

from __future__ import annotations

from typing import Any

from kvsched.reserve.budgets import Wait, waits


def test_the_head_waits_from_its_record_to_its_admission_or_cancellation(play: Any) -> None:
    found = play("0 a 1 8", "0 b 4 1", "0 c 4 1", "1 cancel b", blocks=2, release_delay=3)
    assert list(waits(found)) == [
        Wait(0, 1, "b", "credits"),
        Wait(1, 8, "c", "credits"),
        Wait(8, 11, "c", "draining"),
    ]
