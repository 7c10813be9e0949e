"""Every state of an engine or the simulator as a display phase, and every ending in a word."""

from __future__ import annotations

from types import MappingProxyType

from kvsched.palette import BLOCKED, DECODE, DONE, DRAINING, PREEMPTED, PREFILL, WAITING, Phase

PHASE_OF = MappingProxyType(
    {
        "vllm": MappingProxyType(
            {
                "WAITING": WAITING,
                "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR": BLOCKED,
                "WAITING_FOR_REMOTE_KVS": BLOCKED,
                "WAITING_FOR_STREAMING_REQ": BLOCKED,
                "RUNNING": DECODE,
                "PREEMPTED": PREEMPTED,
                "FINISHED_STOPPED": DONE,
                "FINISHED_LENGTH_CAPPED": DONE,
                "FINISHED_ABORTED": DONE,
                "FINISHED_IGNORED": DONE,
                "FINISHED_ERROR": DONE,
                "FINISHED_REPETITION": DONE,
            }
        ),
        "sglang": MappingProxyType(
            {
                "WAITING": WAITING,
                "CHUNKING": PREFILL,
                "PREFILLED": PREFILL,
                "RUNNING": DECODE,
                "RUNNING_MIXED": DECODE,
                "RETRACTED": PREEMPTED,
                "FINISHED_LINGER": DRAINING,
                "FINISHED": DONE,
                "OOM_ABORTED": DONE,
                "GONE": DONE,
                "LOST": DONE,
            }
        ),
        "reserve": MappingProxyType(
            {
                "WAITING": WAITING,
                "RUNNING": DECODE,
                "FINISHED_LENGTH_CAPPED": DONE,
                "FINISHED_ABORTED": DONE,
            }
        ),
    }
)
"""By engine and the engine's own name of the state."""

ENDING = MappingProxyType(
    {
        "FINISHED_ABORTED": "aborted",
        "FINISHED_IGNORED": "ignored",
        "FINISHED_ERROR": "error",
        "OOM_ABORTED": "out of memory",
        "GONE": "turned away",
        "LOST": "lost",
    }
)
"""The endings that are not the wanted one, in a word."""


def phase(engine: str, state: str, *, prefilling: bool = False, holding: bool = False) -> Phase:
    """The display phase of a state.

    Two states say too little alone. A running request is ``prefilling`` until its last known
    token is computed. One that ended and is still ``holding`` blocks, because a transfer needs
    them, is draining.
    """
    shown = PHASE_OF[engine][state]
    if shown is DECODE and prefilling:
        return PREFILL
    if shown is DONE and holding:
        return DRAINING
    return shown


def ending(state: str) -> str:
    """How a request ended, in a word: ``done`` where it got what it asked for."""
    return ENDING.get(state, "done")
