"""Requests made from laws and a seed. Equal seeds give equal requests on every Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from kvsched.errors import InputError
from kvsched.request import EOS, Request, Stop
from kvsched.workload.lengths import Length
from kvsched.workload.limits import EXACT, Limit
from kvsched.workload.script import Arrival

SECOND = 10**9
"""Nanoseconds."""
APART = 10**7
"""Token ids from one prompt's first to the next one's: no two prompts share a token."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What clients ask for. As text it says so, for a caption.

    ``limit`` makes ``max_tokens`` from the true output length. ``max_model_len``: prompt and
    output together stay within it.
    """

    prompt: Length
    output: Length
    limit: Limit = EXACT
    max_model_len: int = 8192

    def draw(self, count: int, rng: Random) -> Script:
        """``count`` requests that share no token. Each draws its prompt, then its output."""
        requests, outputs = [], {}
        for number in range(count):
            prompt, output = self.prompt.draw(rng), self.output.draw(rng)
            room = self.max_model_len - prompt
            if room < 1:
                fix = "draw shorter prompts, or raise max_model_len"
                raise InputError("prompt", f"{prompt} tokens leave no room to answer", fix)
            cap = self.limit.max_tokens(output, room)
            runs = ((number * APART, prompt),)
            stop = Stop(eos_token_id=EOS) if output < cap else None
            request = Request(f"r{number}", runs, cap, stop=stop)
            requests.append(request)
            if output < cap:
                outputs[request.id] = output
        return Script(requests, outputs)

    def __str__(self) -> str:
        return f"{self.prompt} in, {self.output} out, {self.limit}"


@dataclass(frozen=True, slots=True)
class Script:
    """Requests, and what only the executor may know: ``outputs`` of those that end by EOS."""

    requests: list[Request]
    outputs: dict[str, int]

    def at(self, times: Iterable[int]) -> list[Arrival]:
        """The requests, each at its time."""
        return [
            Arrival(at, replace(request, arrival_time=at))
            for at, request in zip(times, self.requests, strict=True)
        ]


def poisson(rate: float, count: int, rng: Random) -> list[int]:
    """``count`` arrival times in nanoseconds, ``rate`` a second on average, from a start at 0.

    The gaps are drawn from an exponential law; each time is rounded once.
    """
    if not rate > 0:
        raise InputError("rate", f"{rate} is not above 0", "use requests per second")
    times, seconds = [], 0.0
    for _ in range(count):
        seconds += rng.expovariate(rate)
        times.append(round(seconds * SECOND))
    return times
