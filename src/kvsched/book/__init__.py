"""The book machine: what turns notebooks and this package into pages, and keeps both honest."""

from kvsched.book.listing import show
from kvsched.book.told import table, tell

__all__ = ["show", "table", "tell"]
