"""The loop's event-skipping twin: most steps decide nothing, and those need not be played.

The same log and the same end as ``run``. A scheduler with a method ``stretch`` says when nothing
is decided in the steps ahead; who comes when, what a step costs and how far to go is known here.
Every other step is the loop's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvsched.clock import Clock, CostClock, Ticks, Work
from kvsched.contract import Executor, Plan, Scheduler, Stretch
from kvsched.engine.executor import ScriptedExecutor
from kvsched.engine.loop import Engine, Outcome, drive
from kvsched.log import Level, Log
from kvsched.workload import Door, Source, WorkloadEvent


class FastEngine(Engine):
    """Takes a stretch in one go, step by step only what is not one."""

    def advance(self, max_steps: int | None) -> Plan:
        price = _price(self.clock)
        stretch = self._stretch() if price is not None else None
        if price is None or stretch is None:
            return self.step()
        limit = self.steps + stretch.most
        if max_steps is not None:
            limit = min(limit, max_steps)
        self._take(stretch, price, limit)
        return stretch.plan if stretch.steps else self.step()

    def _stretch(self) -> Stretch | None:
        """What the scheduler sees ahead, if nothing else can come between.

        Not with a log of blocks, which has something to say of most steps, nor with a lag, nor
        with an executor that makes up its tokens as it goes.
        """
        offer = getattr(self.scheduler, "stretch", None)
        if offer is None or self.log.level is not Level.METRICS or self.lag:
            return None
        if type(self.executor) is not ScriptedExecutor:
            return None
        stretch: Stretch | None = offer(self.executor)
        return stretch

    def _take(self, stretch: Stretch, price: Callable[[int], int], limit: int) -> None:
        """Take its steps until an event is due or the limit is reached."""
        at = self.calendar.next_at()
        context, batch = stretch.context, len(stretch.plan.scheduled)
        while self.steps < limit and (at is None or self.now < at) and stretch.step():
            self.log.begin(self.steps, self.now)
            self.now += price(context)
            self.log.end(self.now)
            self.steps += 1
            self.sampled += batch
            context += batch
        if stretch.steps:
            stretch.close()


def _price(clock: Clock) -> Callable[[int], int] | None:
    """What a step of decodes costs by the tokens they attend to; None: the clock wants more."""
    if type(clock) is CostClock:
        return lambda context: clock.nanoseconds(Work(0, 0, context))
    return (lambda context: 1) if type(clock) is Ticks else None


def run_fast(
    scheduler: Scheduler,
    workload: Iterable[WorkloadEvent] | Source,
    log: Log,
    clock: Clock | None = None,
    executor: Executor | None = None,
    lag: int = 0,
    door: Door | None = None,
    max_steps: int | None = None,
) -> Outcome:
    """``run``, sooner: the same log, the same outcome, the same scheduler afterwards."""
    engine = FastEngine(scheduler, workload, log, clock, executor, lag, door)
    return drive(engine, max_steps)
