"""Notes: small things that everybody who shares a queue knows, and that are no jobs. A trait says who keeps them.

A note lies on a shelf under a name: how fast a host may be asked, when a schedule last ran, whether a run is paused.
Whoever changes one read it first, and says which version it read: where another was faster, nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from longshore.queue import Queue
from longshore.stored import Json, check_texts

ABSENT = ""
"""The version of a note that is not there."""


class Note(msgspec.Struct, frozen=True):
    """What is written under a name."""

    name: str
    version: str
    """Given by the medium, never twice for one name; `ABSENT` for a note that is not there."""
    value: Json
    """JSON; None is no note."""

    def __post_init__(self) -> None:
        check_texts((self.name, self.version), "The name of a note")


class Shelf(msgspec.Struct, frozen=True):
    """What lay on a shelf at one instant."""

    now: float
    """That instant, in seconds since 1970, by the clock of the medium; on one without, by the machine's."""
    notes: tuple[Note, ...]
    """By name. Those that are not there are left out."""

    def get(self, name: str) -> Note:
        """The note of this name; where there is none, one with the version `ABSENT` and no value."""
        return next((note for note in self.notes if note.name == name), Note(name, ABSENT, None))


class KeepsNotes(Queue, Protocol):
    """A queue with the trait `keeps_notes`."""

    async def notes(self, shelf: str, names: frozenset[str] | None = None) -> Shelf:
        """What lies on a shelf, all of it or what has one of these names, as it is at one instant."""

    async def note(self, shelf: str, notes: Sequence[Note]) -> list[str | None]:
        """Write notes, each on its own: where the version is the one that is there now, the value takes its place.

        The answer is each note's new version, or None where another was faster: then nothing of it is written. A value
        of None takes the note away, and its new version is `ABSENT`. No two notes of one call have the same name. A
        call whose answer got lost is answered by reading again.
        """
