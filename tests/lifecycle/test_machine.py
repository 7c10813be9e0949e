"""Any order of moves: pages are conserved, and every table holds what has entered the model."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from kvsched.lifecycle import Lifecycle, Refused, Transfer

IDS = st.sampled_from(["a", "b", "c", "d", "a'", "b'"])


class LifecycleMachine(RuleBasedStateMachine):
    """Moves as they come; a refused one must leave no trace."""

    transfers = Bundle("transfers")

    @initialize(pages=st.integers(1, 10), size=st.integers(1, 4))
    def begin(self, pages: int, size: int) -> None:
        self.model = Lifecycle(pages, size)
        self.clients: dict[str, list[int]] = {}
        self.token = 100

    @rule(name=IDS, length=st.integers(1, 9))
    def start(self, name: str, length: int) -> None:
        try:
            self.model.start(name, range(length))
        except Refused:
            return
        self.clients[name] = []

    @rule(name=IDS)
    def step(self, name: str) -> None:
        self.token += 1
        try:
            emitted = self.model.step(name, self.token)
        except Refused:
            return
        self.clients[name].append(emitted)

    @rule(name=IDS)
    def preempt(self, name: str) -> None:
        try:
            expected = self.model.recoverable(name)
            assert len(self.model.preempt(name)) == expected
        except Refused:
            return

    @rule(name=IDS)
    def resume(self, name: str) -> None:
        request = self.model.requests.get(name)
        before = (request.replay_rows, list(request.emitted)) if request else None
        try:
            rows = self.model.resume(name)
        except Refused:
            if request is not None:
                assert (request.replay_rows, request.emitted) == before
            return
        assert request is not None
        assert before == (request.replay_rows - rows, request.emitted)

    @rule(name=IDS)
    def cancel(self, name: str) -> None:
        try:
            self.model.cancel(name)
        except Refused:
            return
        assert self.model.cancel(name) == []

    @rule(name=IDS, child=IDS)
    def fork(self, name: str, child: str) -> None:
        try:
            self.clients[child] = list(self.model.fork(name, child).emitted)
        except Refused:
            return

    @rule(target=transfers, name=IDS)
    def transfer(self, name: str) -> Transfer | None:
        try:
            transfer = self.model.transfer(name)
        except Refused:
            return None
        self.clients[f"{name}'"] = list(self.clients[name])
        return transfer

    @rule(transfer=transfers, aborted=st.booleans())
    def end(self, transfer: Transfer | None, aborted: bool) -> None:
        if transfer is None:
            return
        try:
            if aborted:
                self.model.abort(transfer)
            self.model.drained(transfer)
        except Refused:
            return

    @invariant()
    def tables_hold_what_entered(self) -> None:
        for name, request in getattr(self, "model", Lifecycle(1, 1)).requests.items():
            assert request.emitted == self.clients[name]
            expected = request.entered if request.state == "active" else ()
            assert tuple(self.model.held(name)) == expected

    def teardown(self) -> None:
        """Once all is cancelled and drained, every page is free."""
        if not hasattr(self, "model"):
            return
        for name in self.model.requests:
            self.model.cancel(name)
        for transfer in list(self.model.allocator.transfers.values()):
            self.model.drained(transfer)
        assert sorted(self.model.allocator.free) == list(range(self.model.allocator.total))


TestLifecycleMachine = LifecycleMachine.TestCase
TestLifecycleMachine.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
