"""The worker registry: the info that each registered worker publishes. Its heartbeat shows whether it is alive.

The info is in a file of its own, not in the heartbeat's. A worker claims and renews at the same time through two open
queues that do not know each other; with one file for both, a claim could restore info that was just replaced, or
register a worker again that has just left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from longshore.extensions.presence import PresentWorker, WorkerInfo, worker_info
from longshore.lease import WorkerId
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import worker_of
from longshore.media.directory.journal.entry import new_id
from longshore.media.directory.journal.journal import Journal
from longshore.media.directory.ops.heartbeats import Workers
from longshore.stored import encode


class WorkerInfoFile(msgspec.Struct, frozen=True):
    """The content of a worker's file in roll/."""

    label: str
    incarnation: str
    about: dict[str, Any]


class WorkerInfoFiles:
    """The worker registry of a queue: one file in roll/ per registered worker."""

    def __init__(self, journal: Journal, workers: Workers) -> None:
        self._journal = journal
        self._workers = workers

    def add(self, worker: WorkerId, info: bytes) -> None:
        """Register a worker, after its heartbeat. Not synced: after a power cut no worker is alive anyway."""
        own = self._journal.path(f"staging/words.{new_id()}")
        disk.write_hint(own, info)
        disk.move(own, self._file(worker_of(worker.label, worker.incarnation)))

    def remove(self, worker: WorkerId) -> None:
        """Remove a worker from the registry, if it is registered."""
        disk.remove(self._file(worker_of(worker.label, worker.incarnation)))

    def present(self) -> list[PresentWorker]:
        """Return the registered workers that are not silent for this observer, ordered by label."""
        found = []
        for folder in self._folders():
            info = self._read(folder)
            # Ignore a file whose name belongs to another worker.
            if info is None or worker_of(info.label, info.incarnation) != folder or self._workers.silent(folder):
                continue
            unseen = self._workers.unseen(folder)
            found.append(PresentWorker(WorkerId(info.label, info.incarnation), worker_info(info.about), unseen))
        return sorted(found, key=lambda each: (each.worker.label, each.worker.incarnation))

    def remove_silent(self) -> None:
        """Remove the workers from the registry that are silent for this observer."""
        for folder in self._folders():
            if self._workers.silent(folder):
                disk.remove(self._file(folder))

    def _folders(self) -> Iterator[str]:
        for name in disk.names(self._journal.path("roll")):
            if name.endswith(".json"):
                yield name.removesuffix(".json")

    def _read(self, folder: str) -> WorkerInfoFile | None:
        try:
            return msgspec.json.decode(disk.read(self._file(folder)), type=WorkerInfoFile)
        except (OSError, msgspec.DecodeError, RecursionError):
            # Removed a moment ago, or not written by Longshore: no such worker.
            return None

    def _file(self, folder: str) -> str:
        return self._journal.path(f"roll/{folder}.json")


def encode_info(worker: WorkerId, info: WorkerInfo) -> bytes:
    """Return the content of a worker's file. Raises if it could not be read back."""
    content = {"label": worker.label, "incarnation": worker.incarnation, "about": info}
    return encode(content, "The info of a worker")
