"""Recording: one file for each process, one line for each event, on disk before the call goes on."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import FrameType

import msgspec

from longshore.conformance.history.events import AnyEvent, ProcessStarted

_MOMENT = struct.Struct("<q")
_decode = msgspec.json.Decoder(AnyEvent).decode
_PATHS = {
    "longshore.worker.loop.settler": "settler",
    "longshore.worker.leases.watchdog": "watchdog",
    "longshore.worker.lifecycle.worker_run": "shutdown",
    "longshore.handlers.lease_keeper": "worker class",
    "longshore.runs.records.reparse": "reparse",
    "longshore.runs.transfer.offline_merge": "merge",
    "longshore.runs.transfer.offline_checkout": "checkout",
    "longshore.runs.transfer.move_jobs": "move",
    "longshore.runs.control.release": "release",
    "longshore.settlement.orphaned_leases": "orphaned lease",
}
"""The modules that settle, and the name of each path."""


class Moments:
    """The number of the conductor's present step, in a file that all processes of a trial map into memory."""

    def __init__(self, file: Path, *, create: bool = False) -> None:
        if create:
            file.write_bytes(_MOMENT.pack(1))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _MOMENT.size)

    @property
    def now(self) -> int:
        """The present moment."""
        (moment,) = _MOMENT.unpack_from(self._map)
        return int(moment)

    def tick(self) -> int:
        """Begin the next moment, and return it. Only the conductor calls it."""
        _MOMENT.pack_into(self._map, 0, self.now + 1)
        return self.now


class HistoryWriter:
    """The history of one process. From any thread: an event is one write."""

    def __init__(self, folder: Path, process: str, role: str) -> None:
        """Add to the history of the process in `folder`; the conductor has made `Moments` there."""
        self.process = process
        self._moments = Moments(folder / "moment")
        self._calls = count(1)
        self._file = os.open(folder / f"{process}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.write(ProcessStarted(process=process, role=role))

    def call_number(self) -> int:
        """Return a number for the next call."""
        return next(self._calls)

    def write(self, event: AnyEvent) -> None:
        """Write an event with the present moment."""
        stamped = msgspec.structs.replace(event, moment=self._moments.now)
        os.write(self._file, msgspec.json.encode(stamped) + b"\n")


@dataclass(frozen=True)
class ProcessHistory:
    """The events of one process in its own order."""

    process: str
    events: Sequence[AnyEvent]


def read_histories(folder: Path) -> list[ProcessHistory]:
    """Return the histories in a folder."""
    return [read_history(file) for file in sorted(folder.glob("*.jsonl"))]


def read_history(file: Path) -> ProcessHistory:
    """Return the history in a file. A torn last line is left out: the process was killed while it wrote it."""
    lines = file.read_bytes().split(b"\n")[:-1]
    return ProcessHistory(file.stem, [_decode(line) for line in lines])


def settlement_path() -> str:
    """Return the name of the path that the present call of `settle` took, or "" for one that is not known.

    It looks at the callers, because nothing that settles should have to say so only for a recorder.
    """
    return next((_PATHS[module] for module in _calling_modules(sys._getframe(1)) if module in _PATHS), "")


def _calling_modules(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
