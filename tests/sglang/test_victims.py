"""Whom the two engines throw out of the same workload: where they agree, and where not and why.

Recorded from both real schedulers on the four workloads of ``kvsched.views.victims``.
"""

from __future__ import annotations

import pytest

from kvsched.views.victims import WORKLOADS, sglang_victims, vllm_victims

SGLANG = {
    "agree": [(8, "C")],
    "differ_chunk": [(10, "L")],
    "differ_tie": [(10, "L")],
    "differ_late": [(51, "Y"), (64, "X"), (157, "Z")],
}
VLLM = {
    "agree": [(7, "C")],
    "differ_chunk": [(14, "C")],
    "differ_tie": [(10, "C")],
    "differ_late": [(44, "Z"), (50, "Y"), (63, "X"), (147, "Z")],
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_sglang_takes_the_one_with_the_fewest_outputs(name: str) -> None:
    assert sglang_victims(name)[: len(SGLANG[name])] == SGLANG[name]


@pytest.mark.parametrize("name", WORKLOADS)
def test_vllm_takes_the_last_admitted(name: str) -> None:
    assert vllm_victims(name)[: len(VLLM[name])] == VLLM[name]
