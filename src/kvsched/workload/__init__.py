"""Where requests come from: timed arrivals and cancellations, and the door they pass."""

from kvsched.workload.door import Door
from kvsched.workload.script import Arrival, Cancel, Order, WorkloadEvent, in_order

__all__ = ["Arrival", "Cancel", "Door", "Order", "WorkloadEvent", "in_order"]
