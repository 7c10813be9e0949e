"""Policies that no engine has: each overrides one decision of a twin."""

from kvsched.whatif.tax_running import TaxRunning

__all__ = ["TaxRunning"]
