"""Streaming sessions: what a pause keeps, what the next chunk changes, and what it does not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import SLOT, WHOLE_SEQUENCE
from kvsched.log import Admit, ChunkEnd, Finish, Inbox, Preempt, Resume
from kvsched.request import Stop
from kvsched.vllm.status import STREAM

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0", flag="", default=None)
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
RESUME = "kvsched.vllm.sessions.Sessions.resume"
STOP = "kvsched.vllm.sessions.Sessions.stop"
MANAGER = "vllm/v1/core/kv_cache_manager.py"


def paused(hand: Any, prompt: int = 9, out: int = 1, **knobs: Any) -> Any:
    """S has ended its first chunk after ``out`` tokens and waits for its client."""
    run = hand(**knobs)
    run.add("S", prompt, out=out, session=True)
    run.steps(out)
    return run


def admitted(step: Any) -> list[tuple[str, int, int]]:
    return [(event.id, event.computed, event.tokens) for event in step.of(Admit)]


class TestThePause:
    """A paused session keeps its blocks and its slot, and computes nothing."""

    @rule(source=(f"{SCHEDULER}:754-757", f"{SCHEDULER}:2176-2177"), ours=STOP)
    def test_it_keeps_one_of_max_num_seqs(self, hand: Any, case2: Any) -> None:
        """A paused session counts as one of max_num_seqs, although it does not run."""
        run = paused(hand, max_num_seqs=1)
        run.add("A", 4)
        step = run.step()
        assert (step.slots, step.running, step.denial.test) == (1, [], SLOT)
        full = case2("st_all_slots_paused_fcfs").steps
        assert any(not s.running and s.denial and s.denial.test == SLOT for s in full)

    def test_it_keeps_its_blocks_and_its_progress(self, hand: Any, case2: Any) -> None:
        run = paused(hand)
        step = run.step()
        assert (step.holders, step.live["S"][:3]) == ({"S": 3}, (STREAM.name, 9, 10))
        assert any(step.holders for step in case2("st_blocks_held_priority").steps)

    @rule(source=(f"{SCHEDULER}:1459-1461", f"{SCHEDULER}:2174"), ours=RESUME)
    def test_between_the_chunk_and_its_admission_it_has_no_slot(
        self, hand: Any, case2: Any
    ) -> None:
        """From the arrival of its next chunk to its admission a session holds no slot."""
        run = hand(max_num_seqs=1)
        run.add("S", 9, out=1, session=True)
        run.add("A", 4, out=2)
        run.chunk("S", 4, mid=True)
        step = run.step()
        assert (step.waiting_end, step.slots_end) == (["A", "S"], 0)
        step = run.step()
        assert (step.running, step.denial.id, step.holders) == (["A"], "S", {"S": 3})
        lost = case2("st_slot_lost_fcfs").steps[3]
        assert (lost.running, lost.waiting) == (["w"], ["w2", "s"])

    @rule(source=f"{SCHEDULER}:2314-2316", ours="kvsched.vllm.Scheduler.control")
    def test_closing_it_is_an_abort(self, hand: Any) -> None:
        """Closing a paused session ends it as aborted, although it had finished a chunk."""
        run = paused(hand)
        run.close("S")
        step = run.step()
        assert step.of(Inbox) == [Inbox("S", "close", STREAM.name)]
        assert [(e.status, e.reason) for e in step.of(Finish)] == [("FINISHED_ABORTED", "abort")]
        assert (step.free, step.slots, step.live) == (8, 0, {})

    @rule(source=f"{SCHEDULER}:2168-2172", ours=STOP)
    def test_closing_a_running_one_ends_it_at_its_next_stop(self, hand: Any, case2: Any) -> None:
        """A close that finds a session running takes effect at its next stop, with its reason."""
        run = hand()
        run.add("S", 9, out=3, session=True)
        run.close("S")
        steps = run.steps(3)
        assert [e.reason for step in steps for e in step.of(Finish)] == ["length"]
        assert case2("st_close_queued_fcfs").stop == "all_done"

    @rule(source=(f"{SCHEDULER}:2362-2364", f"{SCHEDULER}:1047"))
    @pytest.mark.parametrize("policy", ["fcfs", "priority"])
    def test_a_session_behind_a_head_that_needs_its_blocks(self, case2: Any, policy: str) -> None:
        """A session that waits keeps its blocks: a victim before it can never come back."""
        recorded = case2(f"st_preempted_{policy}")
        last = recorded.steps[-1]
        assert (recorded.stop, last.denial.id, last.denial.test) == ("stalled", "a", WHOLE_SEQUENCE)
        assert (last.running, last.holders) == ([], {"s": 4})


class TestTheNextChunk:
    """It continues the sequence, and changes less than its client may think."""

    @rule(source=f"{SCHEDULER}:1436-1446", ours=RESUME)
    def test_the_last_sampled_token_is_dropped(self, hand: Any) -> None:
        """The chunk replaces what was sampled and not computed: normally the last token."""
        run = paused(hand, out=3)
        assert run.step().live["S"][1:3] == (11, 12)
        run.chunk("S", 5)
        step = run.step()
        assert (admitted(step), step.live["S"][1:3]) == ([("S", 11, 5)], (16, 16))

    @rule(
        source=(f"{SCHEDULER}:872-877", f"{SCHEDULER}:1116-1124"),
        ours="kvsched.vllm.loads.Loads.find",
    )
    def test_it_is_admitted_as_new_and_without_a_lookup(self, hand: Any) -> None:
        """A continued session is reported as a new request, and is not looked up in the cache."""
        run = paused(hand, num_gpu_blocks=20)
        run.add("A", [(100_000, 9), (1_000_000, 4)], out=1)
        run.step()
        run.chunk("S", 5)
        step = run.step()
        assert [type(event) for event in step.of(Admit)] == [Admit]
        assert admitted(step) == [("S", 9, 5)]

    def test_after_a_preemption_it_is_a_resume(self, hand: Any) -> None:
        run = hand(enable_prefix_caching=False)
        run.add("A", 12, out=8)
        run.add("S", 9, session=True, stop=Stop(eos_token_id=77))
        run.says("S", 77)
        run.step()
        run.chunk("S", 4)
        steps = run.steps(9)
        assert [event.id for step in steps for event in step.of(Preempt)] == ["S"]
        kinds = [type(event) for step in steps for event in step.of_any((Admit,))]
        assert kinds == [Admit, Resume]

    @rule(source=f"{SCHEDULER}:1429-1467", ours=RESUME)
    def test_its_own_max_tokens_is_ignored(self, hand: Any, case2: Any) -> None:
        """The max_tokens of a later chunk is ignored: the first chunk's holds for all."""
        run = paused(hand, out=2)
        run.chunk("S", 4, out=9)
        steps = run.steps(4)
        assert [len(step.of(ChunkEnd)) for step in steps] == [0, 1, 0, 0]
        recorded = case2("st_max_tokens_kept_fcfs").recording
        asked = [event["max_tokens"] for event in recorded.events if event["op"] == "chunk"]
        assert set(asked) != {recorded.requests[0]["max_tokens"]}

    @rule(source=f"{SCHEDULER}:1455-1457", flag="enable_prefix_caching", default=True, ours=RESUME)
    def test_a_block_is_registered_under_a_content_it_does_not_hold(
        self, hand: Any, case2: Any
    ) -> None:
        """If the dropped token had completed a block, its old hash stays: wrong KV is found."""
        run = paused(hand, out=3, num_gpu_blocks=30)
        run.chunk("S", 5)
        run.step()
        said, own = [(100_000, 9)], (900_000, 4)
        run.add("x", [*said, (1_000_000, 2), (5_000_000, 1), own], out=1)
        run.add("y", [*said, (1_000_000, 3), own], out=1)
        assert dict(a[:2] for a in admitted(run.step())) == {"x": 8, "y": 12}
        steps = case2("st_stale_hash_fcfs").steps
        assert {a[0]: a[1] for s in steps for a in admitted(s) if a[0] != "s"} == {"x": 8, "y": 12}

    @rule(
        source=(f"{SCHEDULER}:1458-1459", "vllm/v1/core/sched/request_queue.py:170"),
        flag="policy",
        default="fcfs",
        ours=RESUME,
    )
    def test_under_priority_its_new_place_is_not_taken(self, hand: Any, case2: Any) -> None:
        """A chunk's arrival time changes a session's key inside the heap, which is not rebuilt."""
        run = hand(policy="priority", max_num_seqs=2, num_gpu_blocks=30)
        run.add("s0", 4, out=1, arrival=0, session=True)
        run.add("s1", 4, out=1, arrival=1, session=True)
        run.step()
        run.chunk("s0", 4, arrival=100)
        run.chunk("s1", 4, arrival=10)
        run.add("w", 4, arrival=50)
        step = run.step()
        assert ([a[0] for a in admitted(step)], step.skipped) == (["w", "s0"], ["s1"])
        assert case2("st_heap_key_change").stop == "all_done"

    def test_its_stop_replaces_the_one_before(self, hand: Any, case2: Any) -> None:
        run = paused(hand, out=2)
        run.chunk("S", 4, stop=Stop(eos_token_id=77))
        run.says("S", 77)
        (event,) = run.step().of(ChunkEnd)
        assert (event.reason, event.stop_reason) == ("stop", None)
        assert case2("st_stop_token_fcfs").stop == "all_done"

    @rule(source=("vllm/v1/core/sched/utils.py:110", f"{SCHEDULER}:2016"), ours=STOP)
    def test_the_stop_reason_of_a_chunk_stays_for_those_after_it(self, hand: Any) -> None:
        """A chunk that ends by length still names the stop token that ended an earlier chunk."""
        run = hand()
        run.add("S", 9, out=2, session=True, stop=Stop(None, (77,)))
        run.says("S", 77)
        ends = run.step().of(ChunkEnd)
        run.chunk("S", 4)
        ends += [event for step in run.steps(2) for event in step.of(ChunkEnd)]
        assert [(e.reason, e.stop_reason) for e in ends] == [("stop", 77), ("length", 77)]

    @rule(
        source=(f"{SCHEDULER}:474", f"{MANAGER}:455-460"),
        ours="kvsched.vllm.Scheduler.running_tokens",
    )
    def test_chunks_can_exceed_the_models_length(self, hand: Any) -> None:
        """Together a session's chunks may exceed max_model_len: what is over is never computed."""
        run = paused(hand, 9, max_model_len=12, long_prefill_token_threshold=9)
        run.chunk("S", 11)
        steps = run.steps(4)
        assert [step.scheduled for step in steps] == [{"S": 9}, {}, {}, {}]
        assert (steps[-1].live["S"][:3], len(run.table("S"))) == (("RUNNING", 18, 20), 3)
