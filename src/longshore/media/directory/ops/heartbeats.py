"""Heartbeats. A worker's heartbeat is one small file; an observer detects when it stops changing.

Two machines' clocks are never compared to judge a lease. The observer remembers, by its own monotonic clock, when it
first saw the current content of a heartbeat; when the content has not changed for the lease length written in it, the
worker counts as silent. So a lease lasts at least its length, and at most its length plus the time between two
observations. The processes of a machine share what they saw (`media.sightings`). Only what is shown to people uses the
instant that a worker wrote by its own clock.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import timedelta

import msgspec

from longshore.clock import Clock
from longshore.lease import DEFAULT_LEASE, WorkerId, lease_seconds
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import worker_of
from longshore.media.directory.journal.entry import new_id
from longshore.media.directory.journal.journal import Journal
from longshore.media.sightings import Sightings
from longshore.system.cache_dir import cache_dir

ABANDONED = timedelta(minutes=10)
"""How long a file that is normally in use for milliseconds may be unchanged before its process counts as dead."""


class Heartbeat(msgspec.Struct, frozen=True):
    """The content of a worker's heartbeat file. `beat` is a new random id at every renewal."""

    label: str
    lease_seconds: float
    beat: str
    at: float = 0.0
    """When it was written, by the worker's clock: to be shown to people, never to judge a lease."""


class Workers:
    """Writes and observes the heartbeats of a queue."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        name = hashlib.sha256(os.fsencode(os.path.realpath(journal.root))).hexdigest()[:32]
        self._beats = Sightings(clock.monotonic, clock.boot, cache_dir() / "directory" / f"{name}.json")
        self._staged = Sightings(clock.monotonic, clock.boot)

    def beat(self, worker: WorkerId, lease: timedelta) -> str:
        """Write a worker's heartbeat and return the worker's folder. Not synced: it is outdated soon anyway."""
        folder = worker_of(worker.label, worker.incarnation)
        heartbeat = Heartbeat(worker.label, lease_seconds(lease), new_id(), self._clock.now())
        own = self._journal.path(f"staging/beat.{heartbeat.beat}")
        disk.write_hint(own, msgspec.json.encode(heartbeat))
        disk.move(own, self._file(folder))
        self._beats.see(folder, heartbeat.beat)
        return folder

    def label(self, folder: str) -> str:
        """Return the label of the worker with this folder."""
        return self._read(folder).label

    def silent(self, folder: str) -> bool:
        """Return whether this observer has seen a worker's heartbeat unchanged for longer than its lease."""
        heartbeat = self._read(folder)
        self._beats.see(folder, heartbeat.beat)
        self._beats.save()
        silence = self._beats.unchanged_for(folder, heartbeat.beat)
        # After a time without a look, give a worker that could not write either the time to do so.
        return silence > heartbeat.lease_seconds and self._beats.watched_for() >= heartbeat.lease_seconds / 3

    def unseen(self, folder: str) -> float | None:
        """Return for how many seconds a worker was not seen, if that is longer than its lease; for people only."""
        heartbeat = self._read(folder)
        seconds = self._beats.unchanged_for(folder, heartbeat.beat)
        if heartbeat.at and not self._beats.see(folder, heartbeat.beat).changed:
            seconds = max(seconds, self._clock.now() - heartbeat.at)
        return seconds if seconds > heartbeat.lease_seconds else None

    def gone(self, folder: str) -> bool:
        """Return whether a worker has been silent long enough that even a claim it had begun is over."""
        heartbeat = self._read(folder)
        silence = self._beats.unchanged_for(folder, heartbeat.beat)
        return silence > heartbeat.lease_seconds + ABANDONED.total_seconds()

    def known(self) -> Iterator[str]:
        """Yield the folders of all workers with a heartbeat."""
        for name in disk.names(self._journal.path("workers")):
            if name.endswith(".json"):
                yield name.removesuffix(".json")

    def forget(self, folder: str) -> None:
        """Remove the heartbeat of a worker that is gone and holds nothing."""
        disk.remove(self._file(folder))
        self._beats.forget(folder)

    def abandoned(self) -> list[str]:
        """Return the names in staging/ that this observer has seen for longer than `ABANDONED`."""
        there = disk.names(self._journal.path("staging"))
        for gone in set(self._staged.names()).difference(there):
            self._staged.forget(gone)
        return [name for name in there if self._staged.unchanged_for(name, "") > ABANDONED.total_seconds()]

    def _read(self, folder: str) -> Heartbeat:
        try:
            return msgspec.json.decode(disk.read(self._file(folder)), type=Heartbeat)
        except (OSError, msgspec.DecodeError):
            # A heartbeat that was removed or damaged counts as one that does not change.
            return Heartbeat(folder.rpartition("~")[0], DEFAULT_LEASE.total_seconds(), "")

    def _file(self, folder: str) -> str:
        return self._journal.path(f"workers/{folder}.json")
