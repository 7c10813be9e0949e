"""The checker is checked: one value of a recording changed, and it says which step and field."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvsched.conform import check, load
from kvsched.conform.compare import compare
from kvsched.conform.recording import Recording

GOLDEN = Path(__file__).parents[1] / "golden" / "vllm"
HAND_MADE = sorted(
    path.name.removesuffix(".json.gz")
    for path in GOLDEN.glob("*.json.gz")
    if not path.name.startswith(("rand_", "tight_"))
)


def swap(values: list[Any]) -> None:
    """Exchange the first two entries."""
    values[0], values[1] = values[1], values[0]


def swap_keys(mapping: dict[str, Any]) -> None:
    """The same pairs, the first two in the other order."""
    items = list(mapping.items())
    swap(items)
    mapping.clear()
    mapping.update(items)


def put(*keys: Any, to: Any) -> Callable[[Any], None]:
    """Set the value below these keys."""

    def change(step: dict[str, Any]) -> None:
        target: Any = step
        for key in keys[:-1]:
            target = target[key]
        assert target[keys[-1]] != to
        target[keys[-1]] = to

    return change


def within(key: str, change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Change the value of one field in place."""
    return lambda step: change(step[key])


# Steps of abort_all_kinds: 0 admits A B C D and refuses E; 1 aborts F; 3 preempts D; 5 admits E.
FLIPS: list[tuple[str, int, str, Callable[[Any], None]]] = [
    ("step", 3, "step", put("step", to=4)),
    ("an event's kind", 0, "ev", put("ev", 0, 0, to="abort")),
    ("an event's id", 0, "ev", put("ev", 0, 1, to="Z")),
    ("order of events", 0, "ev", within("ev", swap)),
    ("status before an abort", 4, "ev", put("ev", 0, 2, to="RUNNING")),
    ("abort of an unknown id", 9, "ev", put("ev", 0, 2, to="WAITING")),
    ("who is scheduled", 3, "sched", put("sched", 0, 0, to="D")),
    ("scheduled tokens", 0, "sched", put("sched", 2, 1, to=13)),
    ("order of the pass", 0, "sched", within("sched", swap)),
    ("one more in the pass", 3, "sched", within("sched", lambda s: s.append(["D", 1]))),
    ("admitted", 0, "new", within("new", lambda ids: ids.pop())),
    ("order of admission", 0, "new", within("new", swap)),
    ("resumed", 0, "resumed", put("resumed", to=["A"])),
    ("victim", 3, "preempted", put("preempted", 0, to="C")),
    ("no victim", 3, "preempted", put("preempted", to=[])),
    ("refused allocation", 0, "alloc_fail", put("alloc_fail", 0, to="F")),
    ("twice refused", 3, "alloc_fail", put("alloc_fail", to=["A", "A"])),
    ("hit tokens", 5, "hits", put("hits", "E", to=4)),
    ("a hit of somebody else", 5, "hits", within("hits", lambda hits: hits.update(A=0))),
    ("block id", 0, "blocks", put("blocks", "B", 3, to=16)),
    ("order of blocks", 0, "blocks", put("blocks", "A", to=[2, 1, 3, 4])),
    ("blocks left out", 3, "blocks", within("blocks", lambda b: b.pop("C"))),
    ("finished before", 2, "finished_prev", put("finished_prev", to=["A"])),
    ("free blocks", 3, "free", put("free", to=2)),
    ("order of the free queue", 3, "free_crc", put("free_crc", to=0)),
    ("cached blocks", 3, "cached", put("cached", to=16)),
    ("queue", 3, "waiting", within("waiting", swap)),
    ("passed over", 3, "skipped", put("skipped", to=["E"])),
    ("running order", 3, "running", within("running", swap)),
    ("status", 3, "live", put("live", "D", 0, to="WAITING")),
    ("computed tokens", 3, "live", put("live", "A", 1, to=16)),
    ("tokens", 3, "live", put("live", "A", 2, to=16)),
    ("preemptions", 3, "live", put("live", "D", 3, to=2)),
    ("order of arrival", 3, "live", within("live", swap_keys)),
    ("somebody missing", 3, "live", within("live", lambda live: live.pop("E"))),
    ("token delivered", 3, "emitted", within("emitted", lambda ids: ids.pop())),
    ("order of delivery", 3, "emitted", within("emitted", swap)),
    ("finished", 3, "finished", put("finished", to=[["A", "length"]])),
    ("free blocks at the end", 3, "free_end", put("free_end", to=2)),
    ("free queue at the end", 3, "free_crc_end", put("free_crc_end", to=0)),
    ("a field too many", 3, "extra", lambda step: step.update(extra=1)),
    ("a field too few", 3, "cached", lambda step: step.pop("cached")),
]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return load(GOLDEN / "abort_all_kinds.json.gz")


def changed(recording: Recording, step: int, change: Callable[[Any], None]) -> Recording:
    """A copy with one step's record changed."""
    trace = list(recording.trace)
    trace[step] = copy.deepcopy(trace[step])
    change(trace[step])
    return replace(recording, trace=trace)


class TestOneFieldFlipped:
    """Every field of a step, every total of the summary."""

    @pytest.mark.parametrize(
        ("step", "field", "change"), [f[1:] for f in FLIPS], ids=[f[0] for f in FLIPS]
    )
    def test_a_flipped_field_is_found_at_its_step(
        self, recording: Recording, step: int, field: str, change: Callable[[Any], None]
    ) -> None:
        result = compare(changed(recording, step, change))
        assert result.divergence is not None
        assert (result.divergence.step, result.divergence.field) == (step, field)
        assert result.steps == step

    def test_every_field_of_a_step_is_flipped(self, recording: Recording) -> None:
        assert {flip[2] for flip in FLIPS} == {*recording.trace[0], "extra"}

    def test_finish_reason(self, recording: Recording) -> None:
        step = next(s["step"] for s in recording.trace if s["finished"])
        result = compare(changed(recording, step, put("finished", 0, 1, to="stop")))
        assert result.divergence is not None
        assert (result.divergence.step, result.divergence.field) == (step, "finished")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *((name, -1) for name in (
                "steps", "preemptions", "preempt_steps", "resumes", "hit_tokens_new",
                "hit_tokens_resumed", "scheduled_tokens", "output_tokens", "finished",
                "idle_steps",
            )),
            ("stop", "stalled"),
            ("phantom", [[6, "L", 4, 24]]),
            ("phantom", None),
        ],
    )  # fmt: skip
    def test_a_flipped_total_is_found_in_the_summary(
        self, recording: Recording, field: str, value: Any
    ) -> None:
        assert field in recording.summary
        result = compare(replace(recording, summary={**recording.summary, field: value}))
        assert result.divergence is not None
        assert (result.divergence.step, result.divergence.field) == (None, field)
        assert result.divergence.expected == value

    def test_every_total_is_flipped(self, recording: Recording) -> None:
        assert len(recording.summary) == 12

    def test_a_flip_in_a_file_is_found_too(self, tmp_path: Path) -> None:
        document = json.loads(gzip.decompress((GOLDEN / "abort_all_kinds.json.gz").read_bytes()))
        document["trace"][12]["free"] += 1
        path = tmp_path / "flipped.json"
        path.write_text(json.dumps(document))
        result = check(path)
        assert result.divergence is not None
        assert (result.divergence.step, result.divergence.field) == (12, "free")


class TestLength:
    """A run that is longer or shorter than its recording is no match."""

    def test_a_recording_cut_short(self, recording: Recording) -> None:
        result = compare(replace(recording, trace=recording.trace[:-1]))
        assert result.divergence is not None
        assert (result.divergence.step, result.divergence.field) == (None, "steps")
        assert result.divergence.expected == len(recording.trace) - 1

    def test_a_recording_with_a_step_too_many(self, recording: Recording) -> None:
        more = {**recording.trace[-1], "step": len(recording.trace)}
        result = compare(replace(recording, trace=[*recording.trace, more]))
        assert result.divergence is not None
        assert (result.divergence.step, result.divergence.field) == (None, "steps")

    def test_a_recording_that_was_stopped_earlier(self, recording: Recording) -> None:
        result = compare(replace(recording, max_steps=10))
        assert result.divergence is not None
        assert result.divergence.field == "steps"


class TestOtherConfiguration:
    """What was asked matters as much as what was answered."""

    @pytest.mark.parametrize(
        ("knob", "value"),
        [
            ("num_gpu_blocks", 18),
            ("block_size", 5),
            ("max_num_seqs", 3),
            ("watermark", 0.2),
            ("enable_prefix_caching", False),
            ("long_prefill_token_threshold", 13),
            ("max_model_len", 20),
        ],
    )
    def test_another_knob_is_noticed(self, recording: Recording, knob: str, value: Any) -> None:
        result = compare(replace(recording, config={**recording.config, knob: value}))
        assert result.divergence is not None


def test_the_text_of_a_divergence_shows_both_states(recording: Recording) -> None:
    result = compare(changed(recording, 3, put("waiting", to=["E", "D"])))
    assert result.divergence is not None
    text = result.divergence.text()
    assert text.startswith("step 3, field waiting\n")
    assert 'recorded: ["E", "D"]' in text
    assert 'twin:     ["D", "E"]' in text
    ours, theirs = text.split("recorded state:")[1].split("twin state:")
    for side in (ours, theirs):
        for part in ("sched", '[["A", 1], ["B", 1], ["C", 1]]', "preempted", '["D"]', "running"):
            assert part in side


def test_a_long_value_is_cut_and_its_length_told(recording: Recording) -> None:
    result = compare(changed(recording, 3, put("waiting", to=["x" * 500])))
    assert result.divergence is not None
    assert "… (504 characters)" in result.divergence.text()


@pytest.mark.parametrize("name", HAND_MADE)
def test_a_hand_made_case_matches(name: str) -> None:
    result = check(GOLDEN / f"{name}.json.gz")
    assert result.divergence is None
    assert (result.name, result.engine, result.version) == (name, "vllm", "0.28.0")
    assert result.steps > 0
