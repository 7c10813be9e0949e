"""kvsched: LLM-server schedulers that decide exactly as the recorded engines do."""

__version__ = "0.1.0"
