"""A refusal in words: which test bound, and both sides of its inequality."""

from __future__ import annotations

from kvsched.contract import POLICY, SLOT, TOKEN, Denial
from kvsched.explain.sglang.words import who
from kvsched.explain.words import are, n, tokens
from kvsched.sglang import Config


def why(denial: Denial, config: Config) -> str:
    """The binding test of a denial, without the name of who is denied."""
    if denial.test == SLOT:
        return (
            f"it would be number {n(denial.need)} of this pass, and {n(denial.free)} of "
            f"{n(config.max_running_requests)} slots {are(denial.free)} left: {_sides(denial)}, "
            "the slot test."
        )
    if denial.test == TOKEN:
        return (
            f"it needs {tokens(denial.need)} of what the pass may compute and {n(denial.free)} "
            f"{are(denial.free)} left: {_sides(denial)}, the token test."
        )
    if denial.test == POLICY and denial.free:
        return f"a pass admits {n(denial.free)} at most (prefill_max_requests)."
    if denial.test == POLICY:
        return (
            "batch_is_full is set, on account of somebody else; nobody is tried until a request "
            "leaves the batch."
        )
    return _memory(denial, config)


def _memory(denial: Denial, config: Config) -> str:
    if denial.reserved:
        text = (
            f"it asks for {tokens(denial.need)} (what it lacks, the outputs it may still give, "
            f"and a page); {n(denial.free)} {are(denial.free)} free or evictable and "
            f"{n(denial.reserved)} spoken for, one of them because the test is strict: "
            f"{_sides(denial)}, the reservation test."
        )
    else:
        text = (
            f"it needs {tokens(denial.need)} and {n(denial.free)} {are(denial.free)} left beyond "
            f"what everyone is expected to need: {_sides(denial)}, the reservation test."
        )
    pool = config.num_pages * config.page_size
    if denial.need >= pool:
        text += (
            f" The whole pool has {n(pool)}: {who(denial.id)} can never be admitted, and everybody "
            "behind it waits with it."
        )
    return text


def _sides(denial: Denial) -> str:
    return f"{n(denial.asked)} > {n(denial.limit)}"
