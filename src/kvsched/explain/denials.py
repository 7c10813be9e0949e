"""A refusal in words: which test bound, and both sides of its inequality."""

from __future__ import annotations

from typing import Any

from kvsched.contract import POLICY, SLOT, TOKEN, WATERMARK, WHOLE_SEQUENCE, Denial
from kvsched.explain.words import are, blocks, n, tokens


def why(denial: Denial, config: dict[str, Any]) -> str:
    """The binding test of a denial in words, both sides of its inequality in numbers."""
    if denial.test == TOKEN:
        return (
            f"it needs {tokens(denial.need)} of the step's budget and {n(denial.free)} "
            f"{are(denial.free)} left, the token test."
        )
    if denial.test == SLOT:
        taken = "the one slot is" if denial.free == 1 else f"all {n(denial.free)} slots are"
        return f"{taken} taken (max_num_seqs), the slot test."
    if denial.test == POLICY:
        return f"this step preempted {n(denial.need)}, and a step that preempts admits nobody."
    text = _blocks_denied(denial, config)
    usable = config["num_gpu_blocks"] - 1
    if denial.need + denial.cached > usable:
        text += (
            f" The whole pool has {n(usable)}: {denial.id} can never be admitted, and everybody "
            "behind it waits with it."
        )
    return text


def _blocks_denied(denial: Denial, config: dict[str, Any]) -> str:
    # With the gate on, the watermark is charged there first, for the larger need.
    gate = denial.test == WATERMARK and config["scheduler_reserve_full_isl"]
    subject = "whole sequence" if gate or denial.test == WHOLE_SEQUENCE else "next chunk"
    text = f"{denial.id} needs {blocks(denial.need + denial.cached)} for its {subject}"
    text += f", with {n(denial.cached)} cached and {n(denial.free)} free"
    if denial.test == WATERMARK:
        text += f", and the watermark keeps {n(denial.headroom)} back"
    text += f": {n(denial.asked)} > {n(denial.limit)}, the {denial.test} test."
    if denial.cached:
        text += (
            " Cached blocks nobody holds lie in the free queue, so they count as demand; "
            f"{n(denial.need)} more {are(denial.need)} new."
        )
    return text
