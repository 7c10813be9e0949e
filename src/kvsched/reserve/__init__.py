"""A reservation simulator: an executable contract, not a copy of an engine.

Three budgets that must not be confused: *credits* (promises of blocks), *pages* (storage), and
the token and row budgets (work per dispatch). A request with P prompt and N output tokens
promises itself ceil((P + N - 1) / block_size) blocks when it is admitted: the prefill's last
pass gives output one, only N - 1 outputs are fed back, and the last one never enters KV. A
promise is no allocation; pages are taken as tokens are processed. At every boundary

    credits of active requests + draining pages <= usable capacity.

The order at a boundary is part of the contract: the dispatch begun before completes; arrivals;
cancellations; release delays that are over; admission of one FIFO queue, whose head blocks
everybody behind it; then the next dispatch. A clock tick is synthetic: every dispatch takes one,
whatever its shape, so nothing here estimates throughput.
"""

from kvsched.reserve.config import Config
from kvsched.reserve.log import Records
from kvsched.reserve.records import Record, as_json, from_json
from kvsched.reserve.scheduler import Scheduler

ENGINE = "reserve"
VERSION = "1"
POLICIES = ("serial", "continuous")

__all__ = [
    "ENGINE",
    "POLICIES",
    "VERSION",
    "Config",
    "Record",
    "Records",
    "Scheduler",
    "as_json",
    "from_json",
]
