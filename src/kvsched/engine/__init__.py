"""The one loop that drives every scheduler."""

from kvsched.engine.executor import ScriptedExecutor
from kvsched.engine.loop import Engine, Outcome, run

__all__ = ["Engine", "Outcome", "ScriptedExecutor", "run"]
