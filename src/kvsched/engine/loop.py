"""The one loop: due events in, a plan out, its result back, until nothing is left or nothing moves.

``lag`` is the depth of the batch queue less one: 0 updates each plan before the next is made,
1 schedules step k + 1 while step k still runs (vLLM 0.28.0 v1/engine/core.py:624).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvsched.clock import Clock, Ticks
from kvsched.contract import Executor, Plan, Result, Scheduler
from kvsched.engine.executor import ScriptedExecutor
from kvsched.log import Load, Log, Phase, Refuse, Sample, Skip
from kvsched.workload import Arrival, Calendar, Cancel, Door, Order, Source, WorkloadEvent

PATIENCE = 1000
"""Steps without progress after which a run is called stuck."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    ``verdict``: ``all_done``; ``deadlock`` (nothing is scheduled any more) or ``livelock``
    (passes or loads are made and nothing of them is kept); ``horizon`` (the step limit).
    ``cycle``: the requests still in the scheduler with the blocks each holds, when it is stuck.
    """

    verdict: str
    steps: int
    now: int
    cycle: dict[str, int] = field(default_factory=dict)


class Engine:
    """A scheduler with its workload, clock and executor, advanced one step at a time."""

    def __init__(
        self,
        scheduler: Scheduler,
        workload: Iterable[WorkloadEvent] | Source,
        log: Log,
        clock: Clock | None = None,
        executor: Executor | None = None,
        lag: int = 0,
        door: Door | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.calendar = workload if isinstance(workload, Source) else Calendar(workload)
        self.log = log
        self.clock = clock if clock is not None else Ticks()
        self.executor = executor if executor is not None else ScriptedExecutor()
        self.lag = lag
        self.door = door
        self.batches: deque[tuple[Plan, Result]] = deque()
        self.now = 0
        self.steps = 0
        self.sampled = 0

    def advance(self, max_steps: int | None) -> Plan:
        """Go on by one step; a faster engine may take several with one plan, up to the limit."""
        return self.step()

    def step(self) -> Plan:
        """Deliver, schedule, execute; update the oldest batch once the queue is full.

        A scheduler that ``rests`` is not asked while it has no work; the queue is emptied.
        """
        self.log.begin(self.steps, self.now)
        due = self.calendar.due(self.now)
        for event in due:
            if not (isinstance(event, Cancel | Order) and event.mid):
                self._deliver(event)
        made = self.scheduler.has_work() or not getattr(self.scheduler, "rests", False)
        plan = self._launch() if made else Plan()
        if not made:
            self.log.phase = Phase.SCHEDULE
            self.log.add(Skip())
        self.now += self.clock.duration(plan)
        self.log.end(self.now)
        self.steps += 1
        self.log.phase = Phase.MID
        for event in due:
            if isinstance(event, Cancel | Order) and event.mid:
                self._deliver(event)
        full = len(self.batches) > self.lag
        goes_on = made and (plan.scheduled or self.scheduler.has_work())
        if self.batches and (full or not goes_on):
            self.take_in(*self.batches.popleft())
        return plan

    def _launch(self) -> Plan:
        """Make a batch and start it; what it will sample is settled now."""
        plan = self.scheduler.schedule(self.now)
        result = self.executor(plan)
        self.sampled += sum(map(len, result.tokens.values()))
        for request_id in plan.drafts:
            if len(result.tokens[request_id]) > 1:
                self.log.add(Sample(request_id, len(result.tokens[request_id])))
        self.batches.append((plan, result))
        return plan

    @property
    def at_rest(self) -> bool:
        """No request unfinished, nothing but empty batches in flight."""
        in_flight = any(plan.scheduled for plan, _ in self.batches)
        return not (in_flight or self.scheduler.has_work())

    def idle(self) -> bool:
        """Nobody is here: go to the next event. True if a scheduler that ``idles`` had a step."""
        ahead = self.calendar.next_at() or 0
        asked = self.steps > 0 and ahead > self.now and getattr(self.scheduler, "idles", False)
        if asked:
            self.step()
        self.now = max(self.now, ahead)
        return asked

    def take_in(self, plan: Plan, result: Result) -> None:
        """Take in a batch's output."""
        self.scheduler.update(plan, result)

    def _deliver(self, event: WorkloadEvent) -> None:
        match event:
            case Arrival():
                denial = self.door.check(event.request) if self.door is not None else None
                denial = denial or self.scheduler.add(event.request)
                if denial is not None:
                    self.log.add(Refuse(denial))
            case Cancel():
                self.scheduler.abort(event.id)
            case Order():
                self.scheduler.control(event.op)

    @property
    def done(self) -> bool:
        """At rest, and no event to come."""
        return not self.calendar and self.at_rest


def run(
    scheduler: Scheduler,
    workload: Iterable[WorkloadEvent] | Source,
    log: Log,
    clock: Clock | None = None,
    executor: Executor | None = None,
    lag: int = 0,
    door: Door | None = None,
    max_steps: int | None = None,
) -> Outcome:
    """Run a workload to its end and say how it ended.

    A run always ends: PATIENCE steps that neither deliver a token nor bring any request further
    than it ever was are a deadlock or a livelock; or, if an event is still to come, or a time at
    which the scheduler acts by itself (its ``next_wake``, if it has one), a wait: the clock jumps
    to whichever is first. A step that waits for something the executor has due does not count,
    unless it begins a load.
    """
    return drive(Engine(scheduler, workload, log, clock, executor, lag, door), max_steps)


def drive(engine: Engine, max_steps: int | None = None) -> Outcome:
    """``run`` for an engine that stands ready."""
    progress = _Progress(engine)
    scheduler = engine.scheduler
    while not engine.done:
        if max_steps is not None and engine.steps >= max_steps:
            return Outcome("horizon", engine.steps, engine.now)
        if engine.at_rest and engine.idle():
            continue
        plan = engine.advance(max_steps)
        progress.see(plan, engine.executor.due())
        if progress.idle_steps >= PATIENCE:
            ahead = _next_time(engine)
            if ahead is None:
                return Outcome(progress.verdict, engine.steps, engine.now, _holdings(scheduler))
            engine.now = max(engine.now, ahead)
            progress.start_again()
    left = _holdings(scheduler)
    return Outcome("deadlock" if left else "all_done", engine.steps, engine.now, left)


class _Progress:
    """Tokens delivered, plus how far each request ever got.

    A scheduler that heads its log counts what it delivers; of one that does not, every sampled
    token counts as delivered.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.delivered = 0
        self.furthest: dict[str, int] = {}
        self.idle_steps = 0
        self.moved = 0

    @property
    def verdict(self) -> str:
        """``livelock`` if passes or loads were made lately, else ``deadlock``."""
        return "livelock" if self.moved > self.idle_steps // 2 else "deadlock"

    def start_again(self) -> None:
        """Count from here on."""
        self.idle_steps = self.moved = 0

    def see(self, plan: Plan, due: bool) -> None:
        """Count a step in which nothing was gained; any gain starts the count again."""
        log = self.engine.log
        delivered = log.delivered if log.engine else self.engine.sampled
        if delivered > self.delivered or self._further(plan):
            self.delivered = delivered
            self.start_again()
            return
        loads = self._begins_a_load()
        if loads or not due:
            self.idle_steps += 1
        if loads or plan.scheduled:
            self.moved = self.idle_steps

    def _begins_a_load(self) -> bool:
        log = self.engine.log
        for entry in reversed(log.entries):
            if entry.step < log.step:
                break
            if isinstance(entry.event, Load):
                return True
        return False

    def _further(self, plan: Plan) -> bool:
        gained = False
        for row in plan.rows:
            if row.start + row.tokens > self.furthest.get(row.id, 0):
                self.furthest[row.id] = row.start + row.tokens
                gained = True
        return gained


def _next_time(engine: Engine) -> int | None:
    """When something can change though nobody moves; None: never."""
    wake = getattr(engine.scheduler, "next_wake", None)
    times = (engine.calendar.next_at(), wake() if wake is not None else None)
    return min((time for time in times if time is not None), default=None)


def _holdings(scheduler: Scheduler) -> dict[str, int]:
    holdings = getattr(scheduler, "holdings", None)
    return dict(holdings()) if holdings is not None else {}
