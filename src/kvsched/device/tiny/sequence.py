"""What a client asks of the model, and what the executor keeps of a request.

The scheduler compares token *names* to find common prefixes. K and V depend on the adapter, too, so
a token's name carries it: equal prompts under two adapters have nothing in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kvsched.request import Request, Tokens

APART = 2**20
"""From a token's name under one adapter to its name under the next."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of token ids, and how to answer it. ``temperature`` 0 is greedy.

    ``adapter`` 0 is the base model. ``seed``: of this request's own generator.
    """

    id: str
    tokens: tuple[int, ...]
    max_tokens: int
    adapter: int = 0
    temperature: float = 0.0
    seed: int = 0
    priority: int = 0

    def name(self, token: int) -> int:
        """What the scheduler calls this token."""
        return self.adapter * APART + token

    def request(self, arrival_time: int = 0) -> Request:
        """The request as a scheduler takes it."""
        runs = Tokens((self.name(token), 1) for token in self.tokens).runs()
        return Request(self.id, runs, self.max_tokens, arrival_time, self.priority)


@dataclass(slots=True, eq=False)
class Sequence:
    """One request's memory outside the KV cache: nothing of it is lost by a preemption.

    ``tokens``: prompt and outputs. ``guesses``: of its drafter, not verified yet. ``states``: the
    generator's state before each output, so that one the scheduler dropped is drawn again alike.
    """

    prompt: Prompt
    adapter: int = field(init=False)
    tokens: list[int] = field(init=False)
    guesses: list[int] = field(default_factory=list)
    generator: torch.Generator = field(init=False)
    states: dict[int, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.adapter = self.prompt.adapter
        self.tokens = list(self.prompt.tokens)
        self.seed_again()

    @property
    def outputs(self) -> list[int]:
        """The generated tokens."""
        return self.tokens[len(self.prompt.tokens) :]

    def seed_again(self) -> None:
        """The generator as it is before the first draw."""
        self.states.clear()
        self.generator = torch.Generator().manual_seed(self.prompt.seed)

    def draw(self, logits: torch.Tensor, output: int) -> int:
        """Output number ``output``: the largest logit, or one drawn by their probabilities.

        Drawn on the CPU in float64, by inverting the distribution with one uniform number.
        """
        if self.prompt.temperature == 0:
            return int(logits.argmax())
        if output in self.states:
            self.generator.set_state(self.states[output])
        self.states[output] = self.generator.get_state()
        chances = (logits.double().cpu() / self.prompt.temperature).softmax(0).cumsum(0)
        uniform = torch.rand((), generator=self.generator, dtype=torch.float64)
        return min(int(torch.searchsorted(chances, uniform)), len(chances) - 1)
