"""Notes: small things that everybody who shares a queue knows, and that are no jobs. A trait says who keeps them.

A note lies on a shelf under a name: how fast a host may be asked, when a schedule last ran, whether a run is paused.
Whoever changes one read it first, and says which version it read: where another was faster, nothing is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Final, Protocol

import msgspec

from longshore.errors import QueueError
from longshore.queue import Queue
from longshore.stored import Json, check_texts

ABSENT = ""
"""The version of a note that is not there."""


class StateEntry(msgspec.Struct, frozen=True):
    """What is written under a name."""

    name: str
    version: str
    """Given by the medium, never twice for one name; `ABSENT` for a note that is not there."""
    value: Json
    """JSON; None is no note."""

    def __post_init__(self) -> None:
        check_texts((self.name, self.version), "The name of a note")


class Entries(msgspec.Struct, frozen=True):
    """What lay on a shelf at one instant."""

    now: float
    """That instant, in seconds since 1970, by the clock of the medium; on one without, by the machine's."""
    notes: tuple[StateEntry, ...]
    """By name. Those that are not there are left out."""

    def get(self, name: str) -> StateEntry:
        """The note of this name; where there is none, one with the version `ABSENT` and no value."""
        return next((note for note in self.notes if note.name == name), StateEntry(name, ABSENT, None))


class SharedState(Queue, Protocol):
    """A queue with the trait `keeps_notes`."""

    async def notes(self, shelf: str, names: frozenset[str] | None = None) -> Entries:
        """What lies on a shelf, all of it or what has one of these names, as it is at one instant."""

    async def note(self, shelf: str, notes: Sequence[StateEntry]) -> list[str | None]:
        """Write notes, each on its own: where the version is the one that is there now, the value takes its place.

        The answer is each note's new version, or None where another was faster: then nothing of it is written. A value
        of None takes the note away, and its new version is `ABSENT`. No two notes of one call have the same name. A
        call whose answer got lost is answered by reading again.
        """


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""What the `change` of `update_entry` returns to write nothing."""
_TRIES = 100


class Update(msgspec.Struct, frozen=True):
    """A note before and after `update_entry`."""

    before: StateEntry
    after: StateEntry

    @property
    def written(self) -> bool:
        """Whether anything was written."""
        return self.after is not self.before


async def update_entry(
    queue: SharedState,
    shelf: str,
    name: str,
    change: Callable[[StateEntry, float], Awaitable[object]],
    busy: QueueError,
) -> Update:
    """Read the note `name`, ask `change` for its new value, and write that value if the note is still the same.

    `change` is given the note and the time by the clock of the medium. It returns JSON, None to remove the note, or
    `UNCHANGED` to leave it. It is asked again each time another writer was faster, so it must have no other effect.
    Raises `busy` if others were faster every time.
    """
    for _ in range(_TRIES):
        entries = await queue.notes(shelf, frozenset({name}))
        before = entries.get(name)
        value = await change(before, entries.now)
        if value is UNCHANGED:
            return Update(before, before)
        (version,) = await queue.note(shelf, [StateEntry(name, before.version, value)])
        if version is not None:
            return Update(before, StateEntry(name, version, value))
    raise busy
