"""Orders to workers: drain, or stop at once. A person gives one, and the worker finds it in the shared state.

An order is for one incarnation of a worker: a worker that is started again with the same label does not obey it.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from longshore.errors import QueueUnavailableError
from longshore.extensions.shared_state import SharedState, StateEntry, update_entry
from longshore.stored import UNFIT

ORDERS = "worker-orders"
"""The namespace with an entry for each worker that got an order."""
_FORGET_SECONDS = 7 * 24 * 3600.0


class WorkerOrder(StrEnum):
    """A request of a person to a worker."""

    DRAIN = "drain"
    """Finish the jobs under way, claim no others, and end."""
    STOP = "stop"
    """Give all jobs back, and end at once."""


class _Order(msgspec.Struct, frozen=True):
    order: WorkerOrder
    at: float


async def give_order(state: SharedState, label: str, public_incarnation: str, order: WorkerOrder) -> None:
    """Give an order to a worker. Remove orders that are so old that their workers have ended."""
    read = await state.read_entries(ORDERS)
    old = [entry for entry in read.entries if (kept := _kept(entry)) is None or read.now - kept.at > _FORGET_SECONDS]
    if old:
        await state.swap_entries(ORDERS, [StateEntry(entry.name, entry.version, None) for entry in old])

    async def change(entry: StateEntry, now: float) -> object:
        del entry
        return msgspec.to_builtins(_Order(order, now))

    busy = QueueUnavailableError(f"Too many processes give orders to {label} at the same time. Try again.")
    await update_entry(state, ORDERS, _name(label, public_incarnation), change, busy)


async def order_for(state: SharedState, label: str, public_incarnation: str) -> WorkerOrder | None:
    """Return the order that a worker got; None if there is none."""
    name = _name(label, public_incarnation)
    kept = _kept((await state.read_entries(ORDERS, frozenset({name}))).get(name))
    return None if kept is None else kept.order


async def take_order(state: SharedState, label: str, public_incarnation: str) -> WorkerOrder | None:
    """Return the order that a worker got and remove it, for a worker whose incarnation does not change with each start.

    Of several that ask at the same time, one gets it.
    """
    name = _name(label, public_incarnation)
    entry = (await state.read_entries(ORDERS, frozenset({name}))).get(name)
    kept = _kept(entry)
    if kept is None or await state.swap_entries(ORDERS, [StateEntry(name, entry.version, None)]) == [None]:
        return None
    return kept.order


def _name(label: str, public_incarnation: str) -> str:
    return f"{label} {public_incarnation}"


def _kept(entry: StateEntry) -> _Order | None:
    try:
        return msgspec.convert(entry.value, _Order)
    except UNFIT:
        return None  # there is none, or another version wrote it
