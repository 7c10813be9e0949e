"""Replaying recordings of the real engines and comparing every field of every step."""

from kvsched.conform.compare import CaseResult, Divergence, check, compare
from kvsched.conform.recording import Recording, find, load, resolve

__all__ = [
    "CaseResult",
    "Divergence",
    "Recording",
    "check",
    "compare",
    "find",
    "load",
    "resolve",
]
