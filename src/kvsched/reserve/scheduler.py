"""The simulator as a scheduler: what happens at one boundary of an integer clock, in order."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from itertools import islice

from kvsched.contract import WHOLE_SEQUENCE, Control, Denial, Plan, Result, Row
from kvsched.errors import InputError
from kvsched.request import Request
from kvsched.reserve import records as rec
from kvsched.reserve.job import Job
from kvsched.reserve.promises import Promises, place

NEVER = 2**63
"""The deadline of a request that has none."""


class Scheduler(Promises):
    """The reservation simulator."""

    # -- requests come and go ---------------------------------------------------------------

    def add(self, request: Request) -> Denial | None:
        """Queue a request; refuse one that needs more than the whole pool."""
        config, now = self.config, self.log.now
        if request.id in self.ended or request.id in self.jobs:
            raise InputError(f"request {request.id}", "the id is in use", "give each its own id")
        job = Job(request, (self._rank(request), self.arrivals), request.num_prompt_tokens)
        self.arrivals += 1
        self.write(
            rec.Arrival(
                now,
                request.id,
                request.num_prompt_tokens,
                request.max_tokens,
                self.promise(job),
                request.arrival_time if request.arrival_time != now else None,
                request.priority or None,
                request.deadline,
            )
        )
        need = config.blocks_for(request.num_prompt_tokens + request.max_tokens - 1)
        if need > config.blocks:
            self.ended[request.id] = "rejected"
            self.write(rec.Rejected(now, request.id, need, config.blocks))
            return Denial(request.id, WHOLE_SEQUENCE, need, free=config.blocks)
        if self.prefixes is not None:
            self.prefixes.enter(job)
        self.jobs[job.id] = job
        insort(self.queue, job, key=place)
        return None

    def abort(self, request_id: str) -> None:
        """Cancel a request; one that has ended, or is unknown, is written down and left alone."""
        now, job = self.log.now, self.jobs.get(request_id)
        if job is None:
            reason = self.ended.get(request_id, "unknown")
            self.write(rec.CancelIgnored(now, request_id, reason))
            return
        was = "active" if request_id in self.active else "queued"
        self.write(rec.Cancelled(now, request_id, was, job.emitted))
        self.end(job, "cancelled")

    def has_work(self) -> bool:
        """Is a request unfinished, or does a page drain?"""
        return bool(self.jobs or self.pool.drains)

    def control(self, op: Control) -> None:
        """Refuse an order: the contract has none."""
        raise InputError(
            f"order {type(op).__name__}", "unknown here", "give it to vLLM's scheduler"
        )

    # -- one boundary -----------------------------------------------------------------------

    def schedule(self, now: int) -> Plan:
        """Release, admit, dispatch. No record is written of a dispatch with no row."""
        self.release(now)
        sampling: list[str] = []
        plan = Plan(sampling=sampling)
        self.admit(now, plan)
        stalled = self.make_room(now, plan)
        self.pool.check()
        rows = self._rows(stalled)
        if not rows:
            return plan
        self._snapshot(now)
        parts = []
        for job, kind, tokens in rows:
            self.pool.take(job, self.config.blocks_for(job.computed + tokens) - job.borrowed)
            parts.append(rec.Part(job.id, kind, tokens))
            if job.computed + tokens >= job.goal:
                sampling.append(job.id)
        plan.scheduled = {part.id: part.tokens for part in parts}
        plan.read_rows = self._read_rows
        self.write(rec.Dispatch(now, tuple(parts), sum(plan.scheduled.values())))
        return plan

    def update(self, plan: Plan, result: Result) -> None:
        """A dispatch is over: its tokens, then who has all of them."""
        if not plan.scheduled:
            return
        now = self.log.now
        done = []
        for request_id, tokens in plan.scheduled.items():
            job = self.active[request_id]
            job.computed += tokens
            if self.prefixes is not None:
                self.prefixes.publish(job)
            for token in result.tokens.get(request_id, ()):
                if job.take(token):
                    done.append(job)
        self.write(rec.DispatchDone(now, tuple(plan.sampling or ())))
        self.log.delivered += len(plan.sampling or ())
        for job in done:
            self.write(rec.Completed(now, job.id))
            self.end(job, "completed")
        self.pool.check()

    def next_wake(self) -> int | None:
        """When it could act by itself though nothing arrives: a release, or a batch's time."""
        times = [drain.due for drain in islice(self.pool.drains, 1)]
        if self.config.batch_size and self.queue and not self.active:
            times.append(self.batch_due())
        return min(times, default=None)

    # -- dispatch ---------------------------------------------------------------------------

    def _rows(self, stalled: Sequence[Job]) -> list[tuple[Job, str, int]]:
        """Decodes first, then prefill chunks, each from its rotating start, within the budgets."""
        rows: list[tuple[Job, str, int]] = []
        tokens = self.config.max_tokens
        candidates: dict[str, list[Job]] = {"decode": [], "prefill": []}
        for job in self.active.values():
            if job not in stalled:
                candidates["decode" if job.decoding else "prefill"].append(job)
        for kind, jobs in candidates.items():
            for job in _rotated(jobs, self.turns[kind]):
                if not tokens or len(rows) == self.config.max_rows:
                    break
                left = 1 if kind == "decode" else min(self.config.chunk, job.goal - job.computed)
                part = min(left, tokens)
                rows.append((job, kind, part))
                tokens -= part
            self.turns[kind] += bool(jobs)
        return rows

    def _snapshot(self, now: int) -> None:
        pool = self.pool
        pages = (pool.credits, pool.allocated, pool.draining, pool.free)
        self.write(rec.Snapshot(now, len(self.queue), len(self.active), *pages))

    def _read_rows(self, plan: Plan) -> list[Row]:
        """The rows before ``update``; pages are only counted here, so there are no tables."""
        return [Row(i, self.active[i].computed, n, ()) for i, n in plan.scheduled.items()]

    def _rank(self, request: Request) -> int:
        """What orders the queue before the order of arrival does."""
        if self.config.order == "priority":
            return request.priority
        if self.config.order == "deadline":
            return NEVER if request.deadline is None else request.deadline
        return 0


def _rotated(jobs: list[Job], turn: int) -> list[Job]:
    start = turn % len(jobs) if jobs else 0
    return jobs[start:] + jobs[:start]
