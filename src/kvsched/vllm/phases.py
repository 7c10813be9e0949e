"""Each status as one of the palette's display phases."""

from __future__ import annotations

from collections.abc import Mapping

from kvsched.palette import BLOCKED, DECODE, DONE, PREEMPTED, WAITING, Phase
from kvsched.vllm import status
from kvsched.vllm.status import RequestStatus

PHASE_OF: Mapping[RequestStatus, Phase] = {
    status.WAITING: WAITING,
    **dict.fromkeys(sorted(status.BLOCKED), BLOCKED),
    status.RUNNING: DECODE,
    status.PREEMPTED: PREEMPTED,
    **dict.fromkeys((s for s in RequestStatus if s.is_finished), DONE),
}
"""RUNNING counts as decode; while its prefill is in flight it is shown as prefill instead."""
