"""What every part of the scheduler shares: its containers, and how a request moves in and out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from random import Random

from kvsched.contract import Denial, Plan
from kvsched.log import Finish, Log
from kvsched.sglang.config import Config
from kvsched.sglang.events import MILESTONES, Chunked, Drop, Full, Ratio, Requeue, write
from kvsched.sglang.kv_cache import KVCache
from kvsched.sglang.policy import SchedulePolicy
from kvsched.sglang.ratio import NewTokenRatio
from kvsched.sglang.req import Req

ABORT = "FINISH_ABORT"


class Batch:
    """One launched pass: ``prefills`` rows compute a range of their prompt, the rest one token.

    ``extents`` are the token ranges of the rows; the requests go on while the pass runs.
    """

    __slots__ = ("extents", "prefills", "reqs")

    def __init__(self, reqs: Sequence[Req], prefills: int) -> None:
        self.reqs = list(reqs)
        self.prefills = prefills
        self.extents = [
            r.extend_range if i < prefills else (r.kv_committed_len - 1, r.kv_committed_len)
            for i, r in enumerate(reqs)
        ]

    @property
    def kind(self) -> str:
        """The engine's forward mode."""
        if not self.prefills:
            return "decode"
        return "extend" if self.prefills == len(self.reqs) else "mixed"


@dataclass(slots=True)
class BatchPlan(Plan):
    """A plan that knows its batch, None where nothing runs, and the log's step that made it."""

    batch: Batch | None = None
    step: int = 0


class Core:
    """Containers and counters.

    There is no status: where a request stands follows from where it is found (``state.py``).
    ``waiting`` is the queue, ``running`` the decode batch with ``full`` its flag
    ``batch_is_full``, ``last_batch`` the pass of the last ``schedule()``, ``chunked_req`` the one
    request between two chunks. ``requests`` are all that are not done, the ``lost`` included.
    """

    policy_class: type[SchedulePolicy] = SchedulePolicy

    def __init__(self, config: Config, log: Log | None = None) -> None:
        self.config = config
        self.log = log if log is not None else Log()
        self.log.head("sglang", "0.5.18", asdict(config), MILESTONES)
        self.kv = KVCache(config, self.log)
        self.ratio = NewTokenRatio(config)
        self.policy = self.policy_class(config, self.kv, Random(config.seed))
        self.requests: dict[str, Req] = {}
        self.lost: set[str] = set()
        self.waiting: list[Req] = []
        self.running: list[Req] = []
        self.full = False
        self.full_because: Denial | None = None
        self.chunked_req: Req | None = None
        self.last_batch: Batch | None = None
        self.slots_taken = 0
        self.now = 0
        self.entries = 0
        self.plan = BatchPlan()
        self.logged_ratio = self.ratio.current
        self.logged_full = False

    # -- decisions every part uses ----------------------------------------------------------

    def place_of_victims(self) -> int:
        """Where in the queue victims stand again: behind everybody (scheduler.py:2718).

        vLLM puts them in front.
        """
        return len(self.waiting)

    # -- moves ------------------------------------------------------------------------------

    def requeue(self, victims: Sequence[Req]) -> None:
        """Put victims into the queue again, as if they had just come: their time starts anew."""
        if not victims:
            return
        for r in victims:
            self.enter(r)
            r.wait_queue_entry_time = self.now
        at = self.place_of_victims()
        self.waiting[at:at] = victims
        write(self.log, Requeue(ids(victims), at))

    def enter(self, r: Req) -> None:
        """Give ``r`` its place in the order of entry."""
        self.entries += 1
        r.entry_order = self.entries

    def set_full(self, full: bool, because: Denial | None = None) -> None:
        """Set or clear ``batch_is_full``, and remember the test that set it."""
        self.full = full
        self.full_because = because if full else None

    def set_chunked(self, r: Req | None) -> None:
        """Say who stands between two chunks."""
        if r is not self.chunked_req:
            write(self.log, Chunked(r.id if r is not None else None))
        self.chunked_req = r

    def drop_finished(self) -> None:
        """Finished requests linger in the running batch until here."""
        gone = [r for r in self.running if r.over]
        if gone:
            self.running = [r for r in self.running if not r.over]
            write(self.log, Drop(ids(gone)))

    def free(self, r: Req, insert: bool) -> None:
        """Memory and slot back."""
        self.slots_taken -= r.has_slot
        self.kv.release(r, insert)

    def tell_abort(self, r: Req, reason: str) -> None:
        """Tell the client that ``r`` will not be served, and forget it."""
        r.abort_sent = True
        self.log.add(Finish(r.id, ABORT, reason))
        self.lost.discard(r.id)
        del self.requests[r.id]

    def log_flags(self) -> None:
        """Write ``batch_is_full`` and the ratio when they changed."""
        if self.full != self.logged_full:
            self.logged_full = self.full
            write(self.log, Full(self.full))
        if self.ratio.current != self.logged_ratio:
            self.logged_ratio = self.ratio.current
            write(self.log, Ratio(self.logged_ratio))


def ids(reqs: Iterable[Req]) -> tuple[str, ...]:
    """Their ids."""
    return tuple(r.id for r in reqs)
