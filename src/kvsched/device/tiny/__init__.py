"""A tiny transformer with a paged KV cache, run by the schedulers: is the answer the same?

Random weights, so it says nothing sensible. It has what a scheduler can spoil: positions, a causal
mask, pages, adapters, a random generator, guesses to verify.
"""

from kvsched.device.tiny.executor import Moment, Part, TinyExecutor, UnwrittenKV
from kvsched.device.tiny.model import Llama, Shape
from kvsched.device.tiny.pages import PagedKV
from kvsched.device.tiny.runs import Answers, alone, answer
from kvsched.device.tiny.sequence import Prompt, Sequence
from kvsched.device.tiny.swapped import KeptHost

__all__ = [
    "Answers",
    "KeptHost",
    "Llama",
    "Moment",
    "PagedKV",
    "Part",
    "Prompt",
    "Sequence",
    "Shape",
    "TinyExecutor",
    "UnwrittenKV",
    "alone",
    "answer",
]
