"""The tiny model, and the undisturbed answers of its scenes, computed once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch

from kvsched.device.tiny import Answers, Llama, alone
from kvsched.device.tiny.scenes import play, prompts

torch.set_num_threads(1)
MODEL = Llama()


@cache
def undisturbed_answers(sampling: str) -> dict[str, list[int]]:
    return {prompt.id: alone(MODEL, prompt) for prompt in prompts(sampling)}


@pytest.fixture(scope="session")
def model() -> Llama:
    """The tiny model in float64."""
    return MODEL


@pytest.fixture(scope="session")
def undisturbed() -> Callable[[str], dict[str, list[int]]]:
    """Everybody's answer when nobody else is there, greedy or seeded."""
    return undisturbed_answers


@cache
def restored_run(way: str, pool: int, sampling: str) -> Answers:
    return play(MODEL, way, pool, sampling)


@pytest.fixture(scope="session")
def restored() -> Callable[[str, int, str], Answers]:
    """A scene's run with everything restored."""
    return restored_run
