"""Status files: each worker writes the counters of its proxies to a file, so that other processes can show them.

Files are written atomically. A worker's file stays after the worker has ended, so that it can be read after the run.
The next worker of the same label removes it, and after an hour any worker: not sooner, because of a short run some
workers start when others have ended.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from urllib.parse import quote

import msgspec
import psutil

from longshore.clock import Clock
from longshore.scrape.proxies.counters import ProxyCounters
from longshore.scrape.proxies.pool import ProxyPool
from longshore.system.atomic_file import write_atomically
from longshore.system.private_files import make_private


class ProxyStatusFile(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of one worker's proxies."""

    worker: str
    pid: int
    at: float
    """When it was written, in seconds since 1970."""
    counters: tuple[ProxyCounters, ...] = msgspec.field(name="standings")

    @property
    def alive(self) -> bool:
        """Whether the worker's process may still run."""
        return psutil.pid_exists(self.pid)


_KEPT_SECONDS = 3600.0
"""How long the file of a worker that ended stays, at least."""
_decode = msgspec.json.Decoder(ProxyStatusFile).decode


class ProxyStatusWriter:
    """The writer of one worker's status file."""

    def __init__(self, folder: Path, worker: str, clock: Clock) -> None:
        """Make the writer; `worker` is the worker's incarnation, so two workers of one label have two files."""
        self._path = folder / f"{quote(worker, safe='')}.json"
        self._worker = worker.rpartition("/")[0] or worker
        self._clock = clock
        self._last: tuple[ProxyPool, int] | None = None

    def post(self, pool: ProxyPool) -> None:
        """Write the counters of the pool if they have changed. A full disk raises no error: the work must go on."""
        if self._last == (pool, pool.revision):
            return
        with contextlib.suppress(OSError):
            if self._last is None:
                self._remove_stale()
            self._last = pool, pool.revision
            status = ProxyStatusFile(
                worker=self._worker, pid=os.getpid(), at=self._clock.now(), counters=tuple(pool.standings())
            )
            write_atomically(self._path, msgspec.json.encode(status))

    def _remove_stale(self) -> None:
        make_private(self._path.parent)
        for path in self._path.parent.glob("*.json"):
            previous = _read(path)
            if previous is None or not (previous.alive or self._is_recent(previous)):
                path.unlink(missing_ok=True)

    def _is_recent(self, previous: ProxyStatusFile) -> bool:
        return previous.worker != self._worker and self._clock.now() - previous.at < _KEPT_SECONDS


def read_status_files(folder: Path) -> list[ProxyStatusFile]:
    """Return the status files of a folder, sorted by worker."""
    found = [each for path in folder.glob("*.json") if (each := _read(path)) is not None]
    return sorted(found, key=lambda each: each.worker)


def _read(path: Path) -> ProxyStatusFile | None:
    """Return the status file; None if it was just removed or was written by an incompatible version."""
    try:
        return _decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None
