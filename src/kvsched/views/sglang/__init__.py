"""A run of SGLang's scheduler for the player."""

from kvsched.views.sglang.follow import Moment, follow
from kvsched.views.sglang.panel import panel

__all__ = ["Moment", "follow", "panel"]
