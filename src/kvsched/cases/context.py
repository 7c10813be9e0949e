"""A public case about the end of the context, under SGLang's twin and its front end's check."""

from __future__ import annotations

from kvsched import sglang
from kvsched.contract import Denial
from kvsched.engine import Engine
from kvsched.log import Log, Refuse
from kvsched.request import Request
from kvsched.workload import Arrival, Door

CONTEXT, NEW = 4096, 16


def end_of_context(prompt: int) -> int | Denial:
    """Case 29, sglang PR 33814: a context of 4096 tokens, 16 new ones asked for.

    How many come; or the front end's refusal. The pool is four times the context.
    """
    log = Log()
    config = sglang.Config(4 * CONTEXT, context_length=CONTEXT, chunked_prefill_size=8192)
    door = Door(4 * CONTEXT, 1, context_length=CONTEXT)
    events = [Arrival(0, Request("a", ((0, prompt),), NEW))]
    engine = Engine(sglang.Scheduler(config, log), events, log, door=door)
    while not engine.done:
        engine.step()
    for entry in log.entries:
        if isinstance(entry.event, Refuse):
            return entry.event.denial
    return engine.sampled
