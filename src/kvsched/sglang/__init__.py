"""A scheduler that decides as SGLang 0.5.18's does."""

from kvsched.sglang.config import Config
from kvsched.sglang.req import Request
from kvsched.sglang.scheduler import Scheduler
from kvsched.sglang.state import State, derived_state
from kvsched.sglang.steps import rebuild

ENGINE = "sglang"
VERSION = "0.5.18"

__all__ = [
    "ENGINE",
    "VERSION",
    "Config",
    "Request",
    "Scheduler",
    "State",
    "derived_state",
    "rebuild",
]
