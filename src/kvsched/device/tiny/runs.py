"""Answers: the same prompts under a scheduler with too little memory, and each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvsched import sglang, vllm
from kvsched.contract import Scheduler
from kvsched.device.tiny.executor import Moment, TinyExecutor
from kvsched.device.tiny.model import Llama
from kvsched.device.tiny.pages import PagedKV
from kvsched.device.tiny.sequence import Prompt
from kvsched.device.tiny.swapped import KeptHost
from kvsched.engine import Outcome, run
from kvsched.log import Log
from kvsched.whatif import Swap
from kvsched.workload import Arrival

Config = vllm.Config | sglang.Config
HOST_TOKENS = 10_000


@dataclass(frozen=True, slots=True)
class Answers:
    """The tokens each client got; who was thrown out and came back when; and the run's log."""

    tokens: dict[str, list[int]]
    moments: list[Moment]
    outcome: Outcome
    log: Log

    def outs(self, request_id: str) -> list[int]:
        """How many tokens the client had each time its request was thrown out."""
        return [m.outputs for m in self.moments if m.kind == "out" and m.id == request_id]


def answer(
    model: Llama,
    prompts: Sequence[Prompt],
    config: Config,
    at: Sequence[int] = (),
    kind: type[TinyExecutor] = TinyExecutor,
    policy: type[vllm.Scheduler] | None = None,
    overlap: bool = False,
    wipe: bool = True,
) -> Answers:
    """Run ``prompts``, arriving ``at`` these ticks (else all at 0), under the config's engine.

    ``kind``: the executor. ``policy``: a what-if in place of vLLM's scheduler; ``Swap`` gets a
    host that keeps the copies.
    ``overlap``: SGLang's overlap loop; vLLM's config says itself if it is asynchronous. ``wipe``:
    pages are wiped when handed out, so that stale ones are noticed.
    """
    log = Log()
    drafts = _drafts(config)
    executor = kind(model, prompts, _cache(model, config), drafts, log=log if wipe else None)
    scheduler: Scheduler
    if isinstance(config, sglang.Config):
        scheduler, lag = sglang.Scheduler(config, log), int(overlap)
    elif policy is Swap:
        host = KeptHost(HOST_TOKENS)
        host.executor = executor
        scheduler, lag = Swap(config, log, host), 0
    else:
        twin = vllm.AsyncScheduler if config.async_scheduling else vllm.Scheduler
        scheduler, lag = (policy or twin)(config, log), config.max_concurrent_batches - 1
    times = at or [0] * len(prompts)
    arrivals = [Arrival(t, prompt.request(t)) for t, prompt in zip(times, prompts, strict=True)]
    outcome = run(scheduler, arrivals, log, executor=executor, lag=lag)
    tokens = {
        prompt.id: executor.kept[prompt.id].outputs[: prompt.max_tokens] for prompt in prompts
    }
    return Answers(tokens, executor.moments, outcome, log)


def alone(model: Llama, prompt: Prompt) -> list[int]:
    """The undisturbed answer: nobody else, memory enough, nothing cached, no drafts."""
    length = len(prompt.tokens) + prompt.max_tokens
    config = vllm.Config(2 + length // 16 + 1, 16, enable_prefix_caching=False)
    return answer(model, [prompt], config).tokens[prompt.id]


def _cache(model: Llama, config: Config) -> PagedKV:
    if isinstance(config, sglang.Config):
        return model.cache(config.num_pages + 1, config.page_size)
    return model.cache(config.num_gpu_blocks, config.block_size)


def _drafts(config: Config) -> int:
    return config.num_speculative_tokens if isinstance(config, vllm.Config) else 0
