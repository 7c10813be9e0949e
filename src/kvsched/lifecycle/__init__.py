"""Preemption and recovery by hand: what a request has achieved, and what memory holds of it.

No policy, no clock. Token ids stand for KV rows; the order of calls is a serialized control-plane
trace. ``pages`` counts storage, ``model`` moves requests, ``moves`` reads moves from a text.
"""

from kvsched.lifecycle.model import Lifecycle, Refused, Tracked
from kvsched.lifecycle.pages import Allocator, Transfer

__all__ = ["Allocator", "Lifecycle", "Refused", "Tracked", "Transfer"]
