"""Recordings of SGLang 0.5.18: eight kinds of file, many cases in each.

A file says by its fields of which kind it is (``tests/golden/sglang/FORMAT.md``).
"""

from kvsched.conform.sglang.check import compare_content, compare_file, recognises

__all__ = ["compare_content", "compare_file", "recognises"]
