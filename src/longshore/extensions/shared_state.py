"""Shared state: small entries, which are not jobs, that everything sharing a queue can read and change.

An entry has a name within a namespace. Examples: how fast a host may be asked, when a schedule last ran, whether a run
is paused. Entries are changed by compare-and-swap: the writer names the version it has read, and nothing is written if
the entry has another version by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Final, Protocol, runtime_checkable

import msgspec

from longshore.errors import QueueError
from longshore.stored import Json, check_texts

ABSENT = ""
"""The version of an entry that does not exist."""


class StateEntry(msgspec.Struct, frozen=True):
    """One entry of a namespace."""

    name: str
    version: str
    """Given by the medium, never twice for the same name; `ABSENT` for an entry that does not exist."""
    value: Json
    """JSON; None if the entry does not exist."""

    def __post_init__(self) -> None:
        check_texts((self.name, self.version), "The name of a shared entry")


class Entries(msgspec.Struct, frozen=True):
    """The entries of a namespace at one instant."""

    now: float
    """That instant in seconds since 1970, by the medium's clock; by the machine's clock if the medium has none."""
    entries: tuple[StateEntry, ...]
    """Ordered by name. Entries that do not exist are left out."""

    def get(self, name: str) -> StateEntry:
        """Return the entry `name`; if it does not exist, one with the version `ABSENT` and no value."""
        return next((entry for entry in self.entries if entry.name == name), StateEntry(name, ABSENT, None))


@runtime_checkable
class SharedState(Protocol):
    """Offered by a queue with the trait `shares_state`."""

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        """Return the entries of a namespace, or those of them with one of these `names`, as of one instant."""

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        """Replace the value of each entry whose version is still the given one (compare-and-swap).

        Return the new version of each entry in order, or None for each that another writer has changed: nothing of it
        is written. Each entry is decided on its own. A value of None removes the entry; its new version is `ABSENT`. No
        two entries of a call may have the same name. A caller that got no answer reads again to learn what happened.
        """


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""Returned by the `change` of `update_entry` to write nothing."""
_TRIES = 100


class Update(msgspec.Struct, frozen=True):
    """An entry before and after `update_entry`."""

    before: StateEntry
    after: StateEntry

    @property
    def written(self) -> bool:
        """Whether anything was written."""
        return self.after is not self.before


async def update_entry(
    state: SharedState,
    namespace: str,
    name: str,
    change: Callable[[StateEntry, float], Awaitable[object]],
    busy: QueueError,
) -> Update:
    """Read the entry `name`, ask `change` for its new value, and write that value if the entry is still the same.

    `change` is given the entry and the time by the clock of the medium. It returns JSON, None to remove the entry, or
    `UNCHANGED` to leave it. It is asked again each time another writer was faster, so it must have no other effect.
    Raise `busy` if other writers were faster every time.
    """
    for _ in range(_TRIES):
        entries = await state.read_entries(namespace, frozenset({name}))
        before = entries.get(name)
        value = await change(before, entries.now)
        if value is UNCHANGED:
            return Update(before, before)
        (version,) = await state.swap_entries(namespace, [StateEntry(name, before.version, value)])
        if version is not None:
            return Update(before, StateEntry(name, version, value))
    raise busy
