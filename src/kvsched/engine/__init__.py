"""The one loop that drives every scheduler."""

from kvsched.engine.executor import ScriptedExecutor
from kvsched.engine.fast import FastEngine, run_fast
from kvsched.engine.loop import Engine, Outcome, drive, run

__all__ = ["Engine", "FastEngine", "Outcome", "ScriptedExecutor", "drive", "run", "run_fast"]
