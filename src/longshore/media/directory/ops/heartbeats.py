"""Heartbeats. A worker's heartbeat is one small file; an observer detects when it stops changing.

Clocks of other machines are never read. The observer remembers, by its own monotonic clock, when it first saw the
current content of a heartbeat; when the content has not changed for the lease length written in it, the worker counts
as silent. So a lease lasts at least its length, and at most its length plus the time between two observations.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from longshore.clock import Clock
from longshore.lease import DEFAULT_LEASE, WorkerId, lease_seconds
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import worker_of
from longshore.media.directory.journal.entry import new_id
from longshore.media.directory.journal.journal import Journal

ABANDONED = timedelta(minutes=10)
"""How long a file that is normally in use for milliseconds may be unchanged before its process counts as dead."""


class Heartbeat(msgspec.Struct, frozen=True):
    """The content of a worker's heartbeat file. `beat` is a new random id at every renewal."""

    label: str
    lease_seconds: float
    beat: str


class Workers:
    """Writes and observes the heartbeats of a queue."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}
        """The last observed state of each watched file, and when that state was first observed."""

    def beat(self, worker: WorkerId, lease: timedelta) -> str:
        """Write a worker's heartbeat and return the worker's folder. Not synced: it is outdated soon anyway."""
        folder = worker_of(worker.label, worker.incarnation)
        heartbeat = Heartbeat(worker.label, lease_seconds(lease), new_id())
        own = self._journal.path(f"staging/beat.{heartbeat.beat}")
        disk.write_hint(own, msgspec.json.encode(heartbeat))
        disk.move(own, self._file(folder))
        self._unchanged_for(folder, heartbeat.beat)
        return folder

    def label(self, folder: str) -> str:
        """Return the label of the worker with this folder."""
        return self._read(folder).label

    def silent(self, folder: str) -> bool:
        """Return whether this observer has seen a worker's heartbeat unchanged for longer than its lease."""
        heartbeat = self._read(folder)
        return self._unchanged_for(folder, heartbeat.beat) > heartbeat.lease_seconds

    def gone(self, folder: str) -> bool:
        """Return whether a worker has been silent long enough that even a claim it had begun is over."""
        heartbeat = self._read(folder)
        return self._unchanged_for(folder, heartbeat.beat) > heartbeat.lease_seconds + ABANDONED.total_seconds()

    def known(self) -> Iterator[str]:
        """Yield the folders of all workers with a heartbeat."""
        for name in disk.names(self._journal.path("workers")):
            if name.endswith(".json"):
                yield name.removesuffix(".json")

    def forget(self, folder: str) -> None:
        """Remove the heartbeat of a worker that is gone and holds nothing."""
        disk.remove(self._file(folder))
        self._seen.pop(folder, None)

    def abandoned(self) -> list[str]:
        """Return the names in staging/ that this observer has seen for longer than `ABANDONED`."""
        there = disk.names(self._journal.path("staging"))
        watched = {f"staging/{name}" for name in there}
        for gone in [name for name in self._seen if name.startswith("staging/") and name not in watched]:
            del self._seen[gone]
        return [name for name in there if self._unchanged_for(f"staging/{name}", "") > ABANDONED.total_seconds()]

    def _read(self, folder: str) -> Heartbeat:
        try:
            return msgspec.json.decode(disk.read(self._file(folder)), type=Heartbeat)
        except (OSError, msgspec.DecodeError):
            # A heartbeat that was removed or damaged counts as one that does not change.
            return Heartbeat(folder.rpartition("~")[0], DEFAULT_LEASE.total_seconds(), "")

    def _unchanged_for(self, name: str, state: str) -> float:
        now = self._clock.monotonic()
        seen, since = self._seen.get(name, (None, now))
        if seen != state:
            self._seen[name] = (state, now)
            return 0.0
        return now - since

    def _file(self, folder: str) -> str:
        return self._journal.path(f"workers/{folder}.json")
