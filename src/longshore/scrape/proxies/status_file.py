"""What workers post of their proxies, so that another process can show it: one file a worker, whole at any moment.

A worker's file stays when the worker has ended, for whoever looks after the run. The next worker of the folder takes
away those of processes that are gone.
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


class ProxyStatusFile(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker knows of its proxies."""

    worker: str
    pid: int
    at: float
    """When it was written, in seconds since 1970."""
    standings: tuple[ProxyCounters, ...]

    @property
    def alive(self) -> bool:
        """Whether the worker may still be there."""
        return psutil.pid_exists(self.pid)


_decode = msgspec.json.Decoder(ProxyStatusFile).decode


class ProxyStatusWriter:
    """Posts what one worker knows."""

    def __init__(self, folder: Path, worker: str, clock: Clock) -> None:
        """`worker` is its incarnation: two workers of one label have two files."""
        self._path = folder / f"{quote(worker, safe='')}.json"
        self._worker = worker.rpartition("/")[0] or worker
        self._clock = clock
        self._last: tuple[ProxyPool, int] | None = None

    def post(self, pool: ProxyPool) -> None:
        """Write what the pool knows, if that has changed. As with the log, a disk that is full costs no work."""
        if self._last == (pool, pool.moves):
            return
        with contextlib.suppress(OSError):
            if self._last is None:
                self._begin()
            self._last = pool, pool.moves
            read_status_files = ProxyStatusFile(
                worker=self._worker, pid=os.getpid(), at=self._clock.now(), standings=tuple(pool.standings())
            )
            write_atomically(self._path, msgspec.json.encode(read_status_files))

    def _begin(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for path in self._path.parent.glob("*.json"):
            before = _read(path)
            if before is None or not before.alive:
                path.unlink(missing_ok=True)


def read_status_files(folder: Path) -> list[ProxyStatusFile]:
    """What the workers of a folder have posted, by their names."""
    found = [each for path in folder.glob("*.json") if (each := _read(path)) is not None]
    return sorted(found, key=lambda each: each.worker)


def _read(path: Path) -> ProxyStatusFile | None:
    """What is there; None where it was taken away this moment, or was written by another version."""
    try:
        return _decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None
