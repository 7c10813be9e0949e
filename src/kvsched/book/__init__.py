"""The book machine: what turns notebooks and this package into pages, and keeps both honest."""

from kvsched.book.listing import show

__all__ = ["show"]
