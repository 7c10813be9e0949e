"""A host pool that keeps the copies: what ``whatif.Swap`` decides, done to the model's KV."""

from __future__ import annotations

from torch import Tensor

from kvsched.device.tiny.executor import TinyExecutor
from kvsched.whatif import Host


class KeptHost(Host):
    """As Host, with the KV itself. ``executor`` is set before the run starts.

    A copy is taken while the victim still owns its pages, and put back into the pages it was given,
    behind what the prefix cache found.
    """

    executor: TinyExecutor

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.kv: dict[str, tuple[Tensor, Tensor]] = {}

    def store(self, request_id: str, tokens: int) -> None:
        super().store(request_id, tokens)
        self.kv.pop(request_id, None)
        if request_id in self.copies:
            store, table = self.executor.kv, self.executor.tables[request_id]
            self.kv[request_id] = store.copy_out(store.slots(table, 0, tokens))

    def load(self, request_id: str, tokens: int, asynchronous: bool, blocks: list[int]) -> None:
        held = self.copies[request_id]
        super().load(request_id, tokens, asynchronous, blocks)
        self.executor.follow()
        store, (k, v) = self.executor.kv, self.kv.pop(request_id)
        slots = store.slots(blocks, held - tokens, held)
        store.copy_back(slots, (k[:, held - tokens :], v[:, held - tokens :]))
