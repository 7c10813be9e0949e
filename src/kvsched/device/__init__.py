"""Measuring a device: prefill, decode and copies, into a hardware profile.

Torch is imported by the backends alone, and only when one is asked for.
"""

from kvsched.device.backend import Backend, find, has_cuda
from kvsched.device.here import measured_or_stored, today
from kvsched.device.session import Session, gibibytes, place_of

__all__ = [
    "Backend",
    "Session",
    "find",
    "gibibytes",
    "has_cuda",
    "measured_or_stored",
    "place_of",
    "today",
]
