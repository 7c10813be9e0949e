"""How a request ends by what it generated. vLLM 0.28.0 v1/core/sched/utils.py:28-128."""

from __future__ import annotations

from kvsched.request import Stop
from kvsched.vllm.state import RequestState
from kvsched.vllm.status import LENGTH_CAPPED, REPETITION, STOPPED, RequestStatus


def check_stop(r: RequestState) -> RequestStatus | None:
    """The status in which ``r`` ends with the token just appended, or None if it goes on."""
    if r.stop is not None:
        return _check_with_stop(r, r.stop)
    return LENGTH_CAPPED if r.num_tokens >= r.longest else None


def _check_with_stop(r: RequestState, stop: Stop) -> RequestStatus | None:
    """In the engine's order, so EOS as the last allowed token is ``stop``, not ``length``.

    Below ``min_tokens`` nothing is tested, the length limits included: such a request can reach
    max_model_len, stay RUNNING and never be scheduled again.
    """
    if r.num_output_tokens < stop.min_tokens:
        return None
    last = r.last_token
    if last == stop.eos_token_id:
        return STOPPED
    if last in stop.stop_token_ids:
        r.stop_reason = last
        return STOPPED
    if r.num_tokens >= r.longest:
        return LENGTH_CAPPED
    if stop.repetition is not None and _repeats(r.output_tokens(), *stop.repetition):
        r.stop_reason = "repetition_detected"
        return REPETITION
    return None


def _repeats(outputs: list[int], max_size: int, min_size: int, min_count: int) -> bool:
    """Is the tail some pattern of ``min_size`` to ``max_size`` tokens, ``min_count`` times?"""
    if max_size < 1 or min_count < 2:
        return False
    for size in range(max(1, min_size), max_size + 1):
        length = size * min_count
        if length > len(outputs):
            return False
        tail = outputs[-length:]
        if tail[size:] == tail[:-size]:
            return True
    return False
