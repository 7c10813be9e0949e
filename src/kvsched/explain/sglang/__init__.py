"""An iteration of SGLang's scheduler in sentences."""

from kvsched.explain.sglang.telling import Telling, explain

__all__ = ["Telling", "explain"]
