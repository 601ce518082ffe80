"""The choice of the rate store for a queue."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.extensions.find import find
from longshore.extensions.shared_state import SharedState
from longshore.pacing.store import RateStore
from longshore.pacing.store_machine import MachineRateStore, cache_file
from longshore.pacing.store_shared import SharedRateStore
from longshore.queue import Queue


def rate_store_for(queue: Queue, clock: Clock) -> RateStore:
    """Return the store of the queue's workers: in the queue's shared state if that is quick, else in a local file.

    The caller closes it.
    """
    state = find(queue, SharedState)
    if state is not None and queue.traits.quick_shared_state:
        return SharedRateStore(state)
    return MachineRateStore(cache_file(), clock)
