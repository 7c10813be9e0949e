"""Output by conservativeness where answers stop early and where they run to the maximum."""

from __future__ import annotations

from kvsched.cases.feedback import CONSERVATIVENESS, RUN_TO_MAX, SMALL, STOP_EARLY
from kvsched.views.feedback import point
from kvsched.views.view import Data

LAWS = {"stop early": STOP_EARLY, "run to max": RUN_TO_MAX}
"""Where outputs end, in percent of ``max_new_tokens``."""


def laws() -> Data:
    """Case 24: one run for each law and value, the view's own, and one run's ratio.

    ``tokens_s``: output tokens a second by conservativeness, ``best``: the value with the most.
    ``line`` is of the default conservativeness, outputs running to the maximum.
    """
    values = list(CONSERVATIVENESS)
    found = []
    for name, share in LAWS.items():
        rates = [point(value, share, SMALL.pool, SMALL.clients)["tokens_s"] for value in values]
        best = values[rates.index(max(rates))]
        found.append({"name": name, "share": share, "tokens_s": rates, "best": best})
    line = point(1.0, RUN_TO_MAX, SMALL.pool, SMALL.clients)["timeline"]
    return {"values": values, "laws": found, "line": line}
