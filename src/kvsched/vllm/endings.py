"""How a request ends by itself. vLLM 0.28.0 v1/core/sched/utils.py:94."""

from __future__ import annotations

from kvsched.vllm.state import RequestState
from kvsched.vllm.status import LENGTH_CAPPED, RequestStatus


def check_stop(r: RequestState) -> RequestStatus | None:
    """The status in which ``r`` ends with the token just appended, or None if it goes on."""
    if r.num_tokens >= r.longest:
        return LENGTH_CAPPED
    return None
