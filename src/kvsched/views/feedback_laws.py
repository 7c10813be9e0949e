"""Output by conservativeness where answers stop early and where they run to the maximum."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from kvsched.cases.feedback import (
    CONSERVATIVENESS,
    RUN_TO_MAX,
    SMALL,
    STOP_EARLY,
    Size,
    steady,
)
from kvsched.metrics import measure
from kvsched.sglang.decodes import decode_passes
from kvsched.views.feedback import timeline
from kvsched.views.view import Data

LAWS = {"stop early": STOP_EARLY, "run to max": RUN_TO_MAX}
"""Where outputs end, in percent of ``max_new_tokens``."""


def laws(seeds: Sequence[int] = (0, 1), size: Size = SMALL) -> Data:
    """Case 24: the rates of both laws, by seed, and one run's ratio.

    ``tokens_s``: for each seed output tokens a second by conservativeness, ``mean``: over the
    seeds, ``best``: the value with the highest mean. ``line`` is of the default conservativeness
    with the first seed, outputs running to the maximum.
    """
    values = list(CONSERVATIVENESS)
    line, found = {}, []
    for name, share in LAWS.items():
        rates = []
        for seed in seeds:
            logs = [steady(value, share, size, seed) for value in values]
            rates.append([round(measure(log).output_throughput) for log in logs])
            if share == RUN_TO_MAX and seed == seeds[0]:
                line = timeline(list(decode_passes(logs[values.index(1.0)])))
        mean = [round(fmean(each)) for each in zip(*rates, strict=True)]
        best = values[mean.index(max(mean))]
        found.append({"name": name, "share": share, "tokens_s": rates, "mean": mean, "best": best})
    return {"values": values, "laws": found, "line": line}
