"""Who may run: promises of blocks at admission, growth beyond them, and what a leaver gives up."""

from __future__ import annotations

from bisect import insort
from dataclasses import asdict

from kvsched.contract import DRAINING, POLICY, RESERVATION, Denial, Plan
from kvsched.reserve import records as rec
from kvsched.reserve.config import Config
from kvsched.reserve.job import Job, Prefixes
from kvsched.reserve.log import Records
from kvsched.reserve.pool import Pool

TESTS = {"serial": POLICY, "batch": POLICY, "credits": RESERVATION, "draining": DRAINING}
"""The contract's name of each binding of an ``admission_blocked``."""


class Promises:
    """The requests, and the blocks promised to them.

    ``active`` is in admission order; ``queue`` in the order of ``place``. ``jobs`` are both;
    ``ended`` says how each request ended that is no longer here. ``told`` is the last
    ``admission_blocked`` written since the last admission.
    """

    def __init__(self, config: Config, log: Records | None = None) -> None:
        self.config = config
        self.log = log if log is not None else Records()
        self.log.head("reserve", "1", asdict(config))
        self.pool = Pool(config.blocks, config.release_delay)
        self.jobs: dict[str, Job] = {}
        self.queue: list[Job] = []
        self.active: dict[str, Job] = {}
        self.ended: dict[str, str] = {}
        self.arrivals = 0
        self.turns = {"decode": 0, "prefill": 0}
        self.prefixes = Prefixes(config.block_size) if config.prefix_cache else None
        self.told: tuple[str, str] | None = None

    def promise(self, job: Job) -> int:
        """Blocks to reserve at admission: for all it may need, or for what is known of it."""
        whole = job.request.num_prompt_tokens + job.request.max_tokens - 1
        return self.config.blocks_for(whole if self.config.reserve == "whole" else job.goal)

    def admit(self, now: int, plan: Plan) -> None:
        """Admit from the head on, until it must wait."""
        room = self._batch_room(now)
        while self.queue:
            job = self.queue[0]
            hits = self.prefixes.hits(job) if self.prefixes is not None else 0
            need = self.promise(job) - hits
            binding = "batch" if room == len(plan.admitted) + len(plan.resumed) else None
            binding = self._serial() or binding or self.pool.unfit(need)
            if binding is not None:
                self._block(job, need, binding, plan)
                return
            del self.queue[0]
            self._start(job, need, hits, plan)

    def _serial(self) -> str | None:
        return "serial" if self.config.policy == "serial" and self.active else None

    def _start(self, job: Job, need: int, hits: int, plan: Plan) -> None:
        self.pool.promise(job, need)
        job.computed = hits * self.config.block_size
        if self.prefixes is not None:
            self.prefixes.join(job, hits)
        self.active[job.id] = job
        self.told = None
        (plan.resumed if job.preempted else plan.admitted).append(job.id)
        found = job.computed or None
        self.write(rec.Admitted(self.log.now, job.id, need, found, job.preempted or None))

    def _block(self, job: Job, need: int, binding: str, plan: Plan) -> None:
        """The head waits. Written when it or its reason is new since the last admission."""
        pool = self.pool
        spoken_for = pool.credits + (pool.draining if binding == "draining" else 0)
        denial = Denial(job.id, TESTS[binding], need, free=pool.capacity, reserved=spoken_for)
        plan.denials.append(denial)
        if self.told == (job.id, binding):
            return
        self.told = (job.id, binding)
        numbers = (need, pool.credits, pool.draining, pool.capacity, pool.free)
        self.write(rec.AdmissionBlocked(self.log.now, job.id, binding, *numbers))

    def _batch_room(self, now: int) -> int | None:
        """How many may be admitted now; None: any number."""
        size = self.config.batch_size
        if not size:
            return None
        if self.active or not self.queue:
            return 0
        return size if len(self.queue) >= size or now >= self.batch_due() else 0

    def batch_due(self) -> int:
        return min(job.request.arrival_time for job in self.queue) + self.config.batch_wait

    # -- pages ------------------------------------------------------------------------------

    def make_room(self, now: int, plan: Plan) -> list[Job]:
        """Let who decodes grow beyond its promise; return who must wait for draining pages."""
        stalled: list[Job] = []
        if self.config.reserve == "whole":
            return stalled  # nobody outgrows a whole promise
        for job in list(self.active.values()):
            while job.id in self.active and self._outgrows(job):
                unfit = self.pool.unfit(1)
                if unfit is None:
                    self.pool.promise(job, 1)
                elif unfit == "draining":
                    self.write(rec.Stalled(now, job.id, self.pool.draining))
                    stalled.append(job)
                    break
                elif self.config.reserve == "truncate":
                    self.write(rec.Truncated(now, job.id, job.emitted))
                    self.end(job, "truncated")
                else:
                    self._preempt(max(self.active.values(), key=place), job, plan)
        return stalled

    def _outgrows(self, job: Job) -> bool:
        promised = (job.credit + job.borrowed) * self.config.block_size
        return job.computed >= promised and job.decoding

    def _preempt(self, victim: Job, by: Job, plan: Plan) -> None:
        """Throw the victim out. It keeps its place in the order, and so is the next to come."""
        now = self.log.now
        plan.victims.append(victim.id)
        lost, pages = victim.computed, self._leave(victim)
        self.write(rec.Preempted(now, victim.id, by.id, pages, lost, victim.emitted))
        victim.goal = victim.request.num_prompt_tokens + victim.emitted
        victim.computed, victim.preempted = 0, True
        insort(self.queue, victim, key=place)
        if not self.config.release_delay:
            self.release(now)

    def end(self, job: Job, how: str) -> None:
        self.ended[job.id] = how
        del self.jobs[job.id]
        if job.id in self.active:
            self._leave(job)
        else:
            self.queue.remove(job)

    def _leave(self, job: Job) -> int:
        """It is active no more; return how many of its pages drain."""
        del self.active[job.id]
        if self.prefixes is not None:
            self.prefixes.leave(job)
        return self.pool.leave(job, self.log.now)

    def release(self, now: int) -> None:
        for drain in self.pool.release(now):
            self.write(rec.Released(now, drain.id, drain.pages))

    def write(self, record: rec.Record) -> None:
        self.log.write(record)


def place(job: Job) -> tuple[int, int]:
    """Where it stands in the queue, and last of all among victims."""
    return job.place
