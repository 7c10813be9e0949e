"""A scheduler that decides as vLLM 0.28.0's V1 scheduler does."""

from kvsched.vllm.asynchronous import AsyncScheduler
from kvsched.vllm.config import Config
from kvsched.vllm.scheduler import Scheduler

ENGINE = "vllm"
VERSION = "0.28.0"

__all__ = ["ENGINE", "VERSION", "AsyncScheduler", "Config", "Scheduler"]
