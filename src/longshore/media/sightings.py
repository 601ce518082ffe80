"""Since when this machine has seen things unchanged, such as the heartbeats of workers on other machines.

A process that has just started has seen nothing change, and would have to watch each heartbeat for a whole lease. So
the processes of a machine share what they have seen, in a file: if a heartbeat is the same now as twenty minutes ago,
its worker has not renewed for twenty minutes, whether a process watched in between or not. Times are those of the
machine's monotonic clock, and count for one boot of the machine. A file that cannot be written is done without.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from longshore.system.atomic_file import write_atomically
from longshore.system.private_files import make_private

_SAVE_EVERY = 1.0
_GAP = 60.0
"""Seconds without a look after which the machine may have missed that others could not write."""
_MOST = 1000
"""Names in the file, the newest ones."""


class Sighting(NamedTuple):
    """One state of one name, and since when this machine has seen it."""

    state: str
    since: float
    changed: bool = False
    """Whether this machine saw the state before it, too: then it is as old as `since` says."""


class _File(msgspec.Struct):
    boot: str
    looked_at: float
    """When a process of this machine looked last."""
    resumed_at: float
    floor: float
    seen: dict[str, Sighting]


class Sightings:
    """The sightings of this process, shared with the machine through `file` if there is one."""

    def __init__(self, monotonic: Callable[[], float], boot: str, file: Path | None = None) -> None:
        self._monotonic = monotonic
        self._boot = boot
        self._file = file if boot else None
        self._seen: dict[str, Sighting] = {}
        self._floor = self._resumed_at = self._saved_at = float("-inf")
        self._unsaved = False
        if (found := self._merge()) is not None:
            # Only for a process that begins: one that was open all the time notices by itself what it misses.
            self._resumed_at = monotonic() if monotonic() - found.looked_at > _GAP else found.resumed_at

    def see(self, name: str, state: str) -> Sighting:
        """Record that a name has this state now, and return since when."""
        before = self._seen.get(name)
        if before is None or before.state != state:
            self._seen[name] = Sighting(state, self._monotonic(), before is not None)
            self._unsaved = True
        return self._seen[name]

    def state(self, name: str) -> str:
        """Return the last state of a name; "" if it was never seen."""
        return self._seen[name].state if name in self._seen else ""

    def unchanged_for(self, name: str, state: str) -> float:
        """Record that a name has this state now, and return for how many seconds it has had it at least."""
        return self._monotonic() - max(self.see(name, state).since, self._floor)

    def watched_for(self) -> float:
        """Return for how many seconds processes of this machine have looked again and again."""
        return self._monotonic() - self._resumed_at

    def names(self) -> list[str]:
        """Return all names that were seen."""
        return list(self._seen)

    def forget(self, name: str) -> None:
        """Forget a name that no longer exists."""
        self._seen.pop(name, None)

    def restart(self) -> None:
        """Count from now on: for a time no change could be seen."""
        self._floor = self._monotonic()
        self._unsaved = True

    def save(self) -> None:
        """Share the sightings with the other processes of this machine: news at once, else once per second."""
        now = self._monotonic()
        if self._file is None or not (self._unsaved or now - self._saved_at >= _SAVE_EVERY):
            return
        found = self._merge()
        resumed_at = self._resumed_at if found is None else max(self._resumed_at, found.resumed_at)
        self._saved_at, self._unsaved = now, False
        newest = sorted(self._seen.items(), key=lambda item: item[1].since)[-_MOST:]
        content = _File(self._boot, now, max(resumed_at, -1e300), max(self._floor, -1e300), dict(newest))
        with suppress(OSError):
            make_private(self._file.parent)
            write_atomically(self._file, msgspec.json.encode(content), private=True)

    def _merge(self) -> _File | None:
        """Add what other processes of this machine have seen since it booted, and return it."""
        try:
            found = msgspec.json.decode(b"" if self._file is None else self._file.read_bytes(), type=_File)
        except (OSError, msgspec.DecodeError):
            return None
        now = self._monotonic()
        if found.boot != self._boot or found.looked_at > now:
            return None
        self._floor = max(self._floor, found.floor)
        for name, theirs in found.seen.items():
            ours = self._seen.get(name)
            if theirs.since <= now and (ours is None or (ours.state == theirs.state and theirs.since < ours.since)):
                self._seen[name] = theirs
        return found
