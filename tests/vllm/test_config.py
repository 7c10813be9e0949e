"""Every bad value is refused with its field, what was found, and what to write instead."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kvsched.errors import InputError
from kvsched.vllm import Config

FITTING: dict[str, Any] = {"num_gpu_blocks": 10}


def refusal(**values: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        Config.from_dict({**FITTING, **values})
    error = caught.value
    assert str(error) == f"{error.place}: {error.problem}; {error.fix}"
    assert str(error).isprintable()
    return error


class TestDefaults:
    """vLLM 0.28.0's own."""

    def test_defaults(self) -> None:
        config = Config(10)
        assert config.scheduler_reserve_full_isl
        assert config.enable_prefix_caching
        assert config.enable_chunked_prefill
        assert (config.policy, config.watermark) == ("fcfs", 0.0)
        assert config.long_prefill_token_threshold == 0
        assert config.block_size == 16

    def test_a_configuration_cannot_be_changed(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            Config(10).watermark = 0.1  # type: ignore[misc]

    def test_a_dict_and_keywords_are_the_same(self) -> None:
        assert Config.from_dict({"num_gpu_blocks": 10, "watermark": 0}) == Config(10, watermark=0)

    @pytest.mark.parametrize(
        ("blocks", "watermark", "kept"),
        [
            (100, 0.02, 2),
            (101, 0.0199, 2),
            (100, 0.019, 1),
            (10, 0.1, 1),
            (9, 0.1, 0),
            (10, 0.99, 9),
        ],
    )
    def test_the_watermark_is_truncated_with_the_null_block_counted(
        self, blocks: int, watermark: float, kept: int
    ) -> None:
        assert Config(blocks, watermark=watermark).watermark_blocks == kept


class TestKeys:
    """An unknown or a missing key."""

    def test_an_unknown_key_is_named_with_those_known(self) -> None:
        error = refusal(max_seqs=3)
        assert (error.place, error.problem) == ("max_seqs", "unknown configuration key")
        assert "max_num_seqs" in error.fix

    def test_the_number_of_blocks_has_no_default(self) -> None:
        with pytest.raises(InputError, match="num_gpu_blocks: missing; give the number"):
            Config.from_dict({"block_size": 16})


class TestValues:
    """What vLLM refuses, and what nobody can mean."""

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("num_gpu_blocks", 1),
            ("num_gpu_blocks", 0),
            ("num_gpu_blocks", -5),
            ("num_gpu_blocks", 10**12),
            ("block_size", 0),
            ("block_size", -16),
            ("block_size", 10**12),
            ("max_num_seqs", 0),
            ("max_model_len", 0),
            ("max_model_len", 10**12),
            ("long_prefill_token_threshold", -1),
            ("watermark", -0.01),
            ("watermark", 1),
            ("watermark", 1.5),
            ("policy", "lifo"),
            ("policy", ""),
        ],
    )
    def test_a_value_out_of_range_is_named(self, field: str, value: Any) -> None:
        error = refusal(**{field: value})
        assert error.place == field
        assert str(value) in error.problem
        assert error.fix

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_a_watermark_that_is_no_number(self, value: float) -> None:
        assert refusal(watermark=value).place == "watermark"

    @pytest.mark.parametrize(
        ("field", "value", "kind"),
        [
            ("num_gpu_blocks", "10", "int"),
            ("num_gpu_blocks", 10.0, "int"),
            ("num_gpu_blocks", True, "int"),
            ("num_gpu_blocks", None, "int"),
            ("block_size", [16], "int"),
            ("watermark", "0.1", "float"),
            ("watermark", False, "float"),
            ("enable_prefix_caching", 1, "bool"),
            ("enable_chunked_prefill", "no", "bool"),
            ("policy", 3, "str"),
            ("policy", None, "str"),
        ],
    )
    def test_a_value_of_another_type_is_named(self, field: str, value: Any, kind: str) -> None:
        error = refusal(**{field: value})
        assert error.place == field
        assert repr(value) in error.problem
        assert error.fix == f"give a {kind}"


class TestLimitsBetweenFields:
    """Pairs of values that vLLM refuses (config/scheduler.py:250-278)."""

    def test_the_budget_is_no_smaller_than_the_slots(self) -> None:
        error = refusal(max_num_seqs=9, max_num_batched_tokens=8)
        assert error.place == "max_num_batched_tokens"
        assert "8 is below max_num_seqs 9" in error.problem
        assert Config(10, max_num_seqs=8, max_num_batched_tokens=8).max_num_seqs == 8

    def test_without_chunks_the_budget_holds_a_whole_prompt(self) -> None:
        tight = {"max_num_batched_tokens": 256, "max_model_len": 257}
        error = refusal(**tight, enable_chunked_prefill=False)
        assert error.place == "max_num_batched_tokens"
        assert "256 is below max_model_len 257 with chunked prefill off" in error.problem
        assert Config(10, **tight).enable_chunked_prefill  # type: ignore[arg-type]

    def test_the_threshold_is_no_larger_than_the_model_length(self) -> None:
        error = refusal(long_prefill_token_threshold=101, max_model_len=100)
        assert error.place == "long_prefill_token_threshold"
        assert "101 is above max_model_len 100" in error.problem
        assert Config(10, max_model_len=100, long_prefill_token_threshold=100)

    def test_an_absurd_budget_is_refused(self) -> None:
        assert refusal(max_num_batched_tokens=10**12).place == "max_num_batched_tokens"


class TestRequests:
    """Bad requests are refused at the scheduler's own door, by id."""

    def test_a_duplicate_id(self, drive: Any) -> None:
        run = drive()
        run.add("A", 4)
        run.add("A", 4)
        with pytest.raises(InputError, match="request A: the id is in use; give each its own id"):
            run.step()

    def test_an_id_may_be_used_again_when_its_request_has_ended(self, drive: Any) -> None:
        run = drive()
        run.add("A", 4, out=1)
        run.step()
        run.add("A", 4, out=1)
        assert run.step().scheduled == {"A": 4}

    @pytest.mark.parametrize("prompt", [(), ((5, 0),)])
    def test_a_prompt_without_tokens(self, drive: Any, prompt: Any) -> None:
        run = drive()
        run.add("A", prompt)
        with pytest.raises(InputError, match="request A: the prompt is empty"):
            run.step()

    def test_a_prompt_beyond_the_model_length_is_never_computed_backwards(self, drive: Any) -> None:
        """The front end lets no such prompt through; the scheduler leaves the rest undone."""
        run = drive(max_model_len=20, max_num_batched_tokens=32, num_gpu_blocks=40)
        run.add("A", 64)
        assert [step.scheduled for step in run.steps(3)] == [{"A": 32}, {}, {}]
