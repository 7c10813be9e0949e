"""The course of each request, read off a log of any level: what it computed, when it got tokens."""

from __future__ import annotations

from kvsched.courses import sglang, vllm
from kvsched.courses.course import Course, Prefill
from kvsched.log import Log
from kvsched.reader import of_engine

__all__ = ["Course", "Prefill", "read"]


def read(log: Log) -> list[Course]:
    """The courses of all requests, in order of arrival; those still under way end with the log."""
    return of_engine(log, {"vllm": vllm.read, "sglang": sglang.read})(log)
