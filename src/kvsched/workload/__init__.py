"""Where requests come from: seeded laws, timed events, waiting clients, and the door they pass."""

from kvsched.workload.door import Door
from kvsched.workload.lengths import Around, Exactly, Length
from kvsched.workload.limits import DEFAULT, EXACT, Limit
from kvsched.workload.script import Arrival, Cancel, Order, WorkloadEvent, in_order
from kvsched.workload.source import Calendar, ClosedLoop, Source
from kvsched.workload.traffic import SECOND, Script, Traffic, poisson

__all__ = [
    "DEFAULT",
    "EXACT",
    "SECOND",
    "Around",
    "Arrival",
    "Calendar",
    "Cancel",
    "ClosedLoop",
    "Door",
    "Exactly",
    "Length",
    "Limit",
    "Order",
    "Script",
    "Source",
    "Traffic",
    "WorkloadEvent",
    "in_order",
    "poisson",
]
