"""Policies that no engine has: each overrides one decision of a twin."""

from kvsched.whatif.admit_after_preempting import AdmitAfterPreempting
from kvsched.whatif.aged_lpm import AgedLPM
from kvsched.whatif.boost import BoundedBoost
from kvsched.whatif.hrrn import HRRN
from kvsched.whatif.keep_ratio import KeepRatio
from kvsched.whatif.passing_over import PassingOver
from kvsched.whatif.swap import Host, Swap, SwapClock
from kvsched.whatif.tax_running import TaxRunning

__all__ = [
    "HRRN",
    "AdmitAfterPreempting",
    "AgedLPM",
    "BoundedBoost",
    "Host",
    "KeepRatio",
    "PassingOver",
    "Swap",
    "SwapClock",
    "TaxRunning",
]
