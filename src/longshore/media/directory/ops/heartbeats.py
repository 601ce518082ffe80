"""Signs of life. A worker's heartbeat is one small file; an observer sees when it has stopped changing.

No clock of another machine is ever read. The observer notes by its own monotonic clock when it first saw a heartbeat as
it is now; when it has looked the same for the length of the lease written in it, the worker counts as silent. So a
lease lasts at least its length, and at most its length and the time between two looks longer.
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
"""How long what a process uses for milliseconds may stand still before that process counts as dead."""


class Heartbeat(msgspec.Struct, frozen=True):
    """What a worker's file says. `beat` differs with every renewal; nothing else about it matters."""

    label: str
    lease_seconds: float
    beat: str


class Workers:
    """The heartbeats of a queue, written and watched."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}
        """What was last seen of a thing that is watched, and when it was first seen like that."""

    def beat(self, worker: WorkerId, lease: timedelta) -> str:
        """Show that a worker lives, and say which folder is its own. One write, not synced: it is stale soon anyway."""
        folder = worker_of(worker.label, worker.incarnation)
        heartbeat = Heartbeat(worker.label, lease_seconds(lease), new_id())
        own = self._journal.path(f"staging/beat.{heartbeat.beat}")
        disk.write_hint(own, msgspec.json.encode(heartbeat))
        disk.move(own, self._file(folder))
        self._silence(folder, heartbeat.beat)
        return folder

    def label(self, folder: str) -> str:
        """The label of the worker that has that folder."""
        return self._read(folder).label

    def silent(self, folder: str) -> bool:
        """Whether a worker's heartbeat has stood still for a lease length under the eyes of this observer."""
        heartbeat = self._read(folder)
        return self._silence(folder, heartbeat.beat) > heartbeat.lease_seconds

    def gone(self, folder: str) -> bool:
        """Whether a worker has been silent for so long that even a claim it had begun is over."""
        heartbeat = self._read(folder)
        return self._silence(folder, heartbeat.beat) > heartbeat.lease_seconds + ABANDONED.total_seconds()

    def known(self) -> Iterator[str]:
        """The folders of all workers with a heartbeat."""
        for name in disk.names(self._journal.path("workers")):
            if name.endswith(".json"):
                yield name.removesuffix(".json")

    def forget(self, folder: str) -> None:
        """Take away the heartbeat of a worker that is gone and holds nothing."""
        disk.remove(self._file(folder))
        self._seen.pop(folder, None)

    def abandoned(self) -> list[str]:
        """Things in staging/ that have not changed for long under the eyes of this observer."""
        there = disk.names(self._journal.path("staging"))
        watched = {f"staging/{name}" for name in there}
        for gone in [name for name in self._seen if name.startswith("staging/") and name not in watched]:
            del self._seen[gone]
        return [name for name in there if self._silence(f"staging/{name}", "") > ABANDONED.total_seconds()]

    def _read(self, folder: str) -> Heartbeat:
        try:
            return msgspec.json.decode(disk.read(self._file(folder)), type=Heartbeat)
        except (OSError, msgspec.DecodeError):
            # Taken away or damaged by hand: as good as one that does not change.
            return Heartbeat(folder.rpartition("~")[0], DEFAULT_LEASE.total_seconds(), "")

    def _silence(self, name: str, sight: str) -> float:
        now = self._clock.monotonic()
        seen, since = self._seen.get(name, (None, now))
        if seen != sight:
            self._seen[name] = (sight, now)
            return 0.0
        return now - since

    def _file(self, folder: str) -> str:
        return self._journal.path(f"workers/{folder}.json")
