"""What a run was like for its clients and its operator, from its log alone, of any level.

Names and definitions are vLLM 0.28.0's where it has one; ``VLLM`` says which, and where. Times are
in the clock's units, whole numbers. A token is there when the step ends whose ``update()``
appended it; a request is scheduled when that step begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import fsum
from typing import Any

from kvsched import courses
from kvsched.courses import Course
from kvsched.distribution import Distribution
from kvsched.log import Log
from kvsched.reader import of_engine
from kvsched.sglang import Config
from kvsched.workload.traffic import SECOND

VLLM: Mapping[str, tuple[str, str]] = {
    "time_to_first_token": ("vllm:time_to_first_token_seconds", "vllm/v1/metrics/stats.py:393"),
    "inter_token_latency": ("vllm:inter_token_latency_seconds", "vllm/v1/metrics/stats.py:423"),
    "time_per_output_token": (
        "vllm:request_time_per_output_token_seconds",
        "vllm/v1/metrics/stats.py:479-483",
    ),
    "e2e_latency": ("vllm:e2e_request_latency_seconds", "vllm/v1/metrics/stats.py:461"),
    "queued_time": ("vllm:request_queue_time_seconds", "vllm/v1/metrics/stats.py:464"),
    "prefill_time": ("vllm:request_prefill_time_seconds", "vllm/v1/metrics/stats.py:468"),
    "decode_time": ("vllm:request_decode_time_seconds", "vllm/v1/metrics/stats.py:472"),
    "inference_time": ("vllm:request_inference_time_seconds", "vllm/v1/metrics/stats.py:476"),
    "num_preemptions": ("vllm:num_preemptions", "vllm/v1/metrics/loggers.py:662"),
    "prompt_tokens": ("vllm:prompt_tokens", "vllm/v1/metrics/loggers.py:671"),
    "generation_tokens": ("vllm:generation_tokens", "vllm/v1/metrics/loggers.py:705"),
    "prefix_cache_queries": ("vllm:prefix_cache_queries", "vllm/v1/metrics/stats.py:131-143"),
    "prefix_cache_hits": ("vllm:prefix_cache_hits", "vllm/v1/metrics/stats.py:131-143"),
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm/v1/core/block_pool.py:808-818"),
    "request_throughput": ("request_throughput", "vllm/benchmarks/serve.py:731"),
    "request_goodput": ("request_goodput", "vllm/benchmarks/serve.py:622-643"),
    "output_throughput": ("output_throughput", "vllm/benchmarks/serve.py:733"),
}
"""A metric here: its name at a server's /metrics or in ``vllm bench serve``, and its definition.

There is no counter of recomputed tokens, and ``prefix_cache_hits`` leaves out what a preempted
request finds when it returns: the cost of preemption is what the server does not export.
"""


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """One request. A time is None while what ends it has not happened.

    ``time_to_first_token`` and ``e2e_latency`` count from ``arrival_time``, ``queued_time`` from
    the step at which the scheduler got the request. Preemptions before the first token are part
    of ``prefill_time``, later ones of ``decode_time``.
    """

    id: str
    arrival_time: int
    num_prompt_tokens: int
    num_output_tokens: int
    num_preemptions: int
    tokens_recomputed: int
    own_hits: int
    shared_hits: int
    time_to_first_token: int | None
    queued_time: int | None
    prefill_time: int | None
    decode_time: int | None
    e2e_latency: int | None

    @property
    def inference_time(self) -> int | None:
        """From the first scheduling to the last token, of a request that has ended."""
        if self.prefill_time is None or self.decode_time is None:
            return None
        return self.prefill_time + self.decode_time

    @property
    def time_per_output_token(self) -> float | None:
        """Mean time a token after the first takes, 0 if there is only one."""
        if self.decode_time is None:
            return None
        return self.decode_time / max(1, self.num_output_tokens - 1)


@dataclass(frozen=True, slots=True)
class Slo:
    """A service level objective: the most that a request may take, in the clock's units.

    By ``vllm bench serve --goodput``'s own names; None sets no limit.
    """

    ttft: float | None = None
    tpot: float | None = None
    e2el: float | None = None

    def met(self, r: RequestMetrics) -> bool:
        """Did this request, which has ended, keep all three?"""
        times = (r.time_to_first_token, r.time_per_output_token, r.e2e_latency)
        return all(
            limit is None or (time is not None and time <= limit)
            for limit, time in zip((self.ttft, self.tpot, self.e2el), times, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Metrics:
    """A whole run, from its first arrival to the end of its last step.

    ``tokens_prefilled``: tokens computed by passes of something else than the one newest token,
    of which ``tokens_recomputed`` had been computed before. ``prefix_cache_*`` count first
    admissions only.
    ``kv_cache_usage``: share of the blocks in use after each update, empty without blocks.
    ``second``: the clock's units in a second.
    """

    requests: list[RequestMetrics]
    inter_token_latency: Distribution
    duration: int
    second: int
    tokens_prefilled: int
    prefix_cache_queries: int
    prefix_cache_hits: int
    kv_cache_usage: list[float]
    kv_cache_usage_mean: float | None

    def over(self, read: Callable[[RequestMetrics], float | None]) -> Distribution:
        """A number of every request that has it."""
        return Distribution(value for r in self.requests if (value := read(r)) is not None)

    @property
    def time_to_first_token(self) -> Distribution:
        return self.over(lambda r: r.time_to_first_token)

    @property
    def time_per_output_token(self) -> Distribution:
        return self.over(lambda r: r.time_per_output_token)

    @property
    def e2e_latency(self) -> Distribution:
        return self.over(lambda r: r.e2e_latency)

    @property
    def queued_time(self) -> Distribution:
        return self.over(lambda r: r.queued_time)

    @property
    def preemptions_per_request(self) -> Distribution:
        return self.over(lambda r: r.num_preemptions)

    @property
    def num_preemptions(self) -> int:
        return sum(r.num_preemptions for r in self.requests)

    @property
    def tokens_recomputed(self) -> int:
        """Tokens computed again because a preemption had thrown them away."""
        return sum(r.tokens_recomputed for r in self.requests)

    @property
    def own_hits(self) -> int:
        """Tokens a returning request found in blocks it had filled itself."""
        return sum(r.own_hits for r in self.requests)

    @property
    def shared_hits(self) -> int:
        """Tokens found in blocks that others had filled."""
        return sum(r.shared_hits for r in self.requests)

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of requests that got a first token."""
        return sum(r.num_prompt_tokens for r in self.requests if r.num_output_tokens)

    @property
    def generation_tokens(self) -> int:
        return sum(r.num_output_tokens for r in self.requests)

    @property
    def finished(self) -> list[RequestMetrics]:
        """The requests that got their last token."""
        return [r for r in self.requests if r.e2e_latency is not None]

    @property
    def output_throughput(self) -> float:
        """Output tokens a second."""
        return self._rate(self.generation_tokens)

    @property
    def request_throughput(self) -> float:
        """Finished requests a second."""
        return self._rate(len(self.finished))

    def request_goodput(self, slo: Slo) -> float:
        """Finished requests a second that kept the objective."""
        return self._rate(sum(map(slo.met, self.finished)))

    def _rate(self, count: int) -> float:
        return count * self.second / self.duration if self.duration else 0.0


def measure(log: Log, second: int = SECOND) -> Metrics:
    """The metrics of a run by its log; ``second`` is 1 for a clock that ticks."""
    found = courses.read(log)
    start = min((course.arrival_time for course in found), default=0)
    usage = _kv_cache_usage(log)
    return Metrics(
        requests=[_request(course, log) for course in found],
        inter_token_latency=_gaps(found, log.ends),
        duration=log.ends[-1] - start if log.ends else 0,
        second=second,
        tokens_prefilled=sum(part.tokens for course in found for part in course.prefills),
        prefix_cache_queries=sum(course.first_queries for course in found),
        prefix_cache_hits=sum(course.first_hits for course in found),
        kv_cache_usage=usage,
        kv_cache_usage_mean=_mean_over_time(usage, log),
    )


def _request(course: Course, log: Log) -> RequestMetrics:
    times, ends = log.times, log.ends
    scheduled = times[course.admitted[0]] if course.admitted else None
    first = ends[course.runs[0][0]] if course.runs else None
    last = ends[course.runs[-1][1]] if course.runs and course.reason is not None else None
    arrival = course.arrival_time
    return RequestMetrics(
        id=course.id,
        arrival_time=arrival,
        num_prompt_tokens=course.num_prompt_tokens,
        num_output_tokens=course.num_output_tokens,
        num_preemptions=course.num_preemptions,
        tokens_recomputed=course.tokens_recomputed,
        own_hits=course.own_hits,
        shared_hits=course.shared_hits,
        time_to_first_token=first - arrival if first is not None else None,
        queued_time=scheduled - times[course.arrived] if scheduled is not None else None,
        prefill_time=first - scheduled if first is not None and scheduled is not None else None,
        decode_time=last - first if last is not None and first is not None else None,
        e2e_latency=last - arrival if last is not None else None,
    )


def _gaps(found: Iterable[Course], ends: list[int]) -> Distribution:
    """Times between consecutive tokens of one request, over all requests.

    Within a run of steps a gap is a step's time, so it is counted by step, not by request.
    """
    gaps: Counter[int] = Counter()
    change = [0] * (len(ends) + 1)
    for course in found:
        for first, last in course.runs:
            change[first + 1] += 1
            change[last + 1] -= 1
        for (_, last), (first, _) in pairwise(course.runs):
            gaps[ends[first] - ends[last]] += 1
    for step, count in enumerate(accumulate(change[:-1])):
        if count:
            gaps[ends[step] - ends[step - 1]] += count
    return Distribution(gaps)


def _kv_cache_usage(log: Log) -> list[float]:
    """As vLLM reads it: after the update, in which the finished gave their blocks back.

    What lies in the cache and nobody holds is free, in SGLang's token_usage too.
    """
    if not log.free_blocks:
        return []
    usable = usable_blocks(log)
    return [1.0 - free / usable for free in log.free_blocks]


def usable_blocks(log: Log) -> int:
    """Blocks of the pool that can be handed out: vLLM keeps one for itself, SGLang has pages."""
    return of_engine(log, _USABLE)(log.config)


_USABLE: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "vllm": lambda config: int(config["num_gpu_blocks"]) - 1,
    "sglang": lambda config: Config.from_dict(config).num_pages,
}


def _mean_over_time(usage: list[float], log: Log) -> float | None:
    """The mean a scraper would see: each update's value holds until the next."""
    if not usage:
        return None
    ends = log.ends[: len(usage)]
    spans = [*(after - before for before, after in pairwise(ends)), 0]
    total = sum(spans)
    if not total:
        return usage[-1]
    return fsum(share * span for share, span in zip(usage, spans, strict=True)) / total
