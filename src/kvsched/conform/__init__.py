"""Recordings of the real engines, and whether our schedulers decide as they did."""
