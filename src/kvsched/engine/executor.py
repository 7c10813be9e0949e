"""The default executor: a script in place of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvsched.contract import Plan, Result
from kvsched.request import EOS

ENDLESS = 2**30
"""More tokens than any request gets."""


class ScriptedExecutor:
    """Samples token ``first_token[id] + k`` as the k-th output of a request, k from 0.

    The count is kept across preemption, as the client's is. Ids without an entry start at
    ``first_token[""]``, or at 1,000,000. ``outputs``: true output lengths; the last token of such
    a request is EOS instead. What a scheduler drops instead of delivering (an asynchronous one, a
    victim's output in flight) counts as sampled, so true lengths do not go with dropping.
    """

    def __init__(
        self,
        first_token: Mapping[str, int] | None = None,
        outputs: Mapping[str, int] | None = None,
    ) -> None:
        self.first_token = dict(first_token or {})
        self.default = self.first_token.get("", 1_000_000)
        self.next_token: dict[str, int] = {}
        self.last_token = {
            request_id: self.first_token.get(request_id, self.default) + length - 1
            for request_id, length in (outputs or {}).items()
        }

    def ahead(self, request_id: str) -> range:
        token = self.next_token.get(request_id, self.first_token.get(request_id, self.default))
        last = self.last_token.get(request_id)
        return range(token, last if last is not None and token <= last else token + ENDLESS)

    def skip(self, request_ids: Iterable[str], steps: int) -> None:
        for request_id in request_ids:
            self.next_token[request_id] += steps

    def due(self) -> bool:
        """Nothing comes by itself."""
        return False

    def __call__(self, plan: Plan) -> Result:
        sampling = plan.scheduled if plan.sampling is None else plan.sampling
        next_token = self.next_token
        tokens = {}
        for request_id in sampling:
            token = next_token.get(request_id)
            if token is None:
                token = self.first_token.get(request_id, self.default)
            next_token[request_id] = token + 1
            tokens[request_id] = (token,)
        if self.last_token:
            self._end(tokens)
        return Result(tokens)

    def _end(self, tokens: dict[str, tuple[int]]) -> None:
        for request_id, (token,) in tokens.items():
            if token == self.last_token.get(request_id):
                tokens[request_id] = (EOS,)
