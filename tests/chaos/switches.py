"""Faults that a process of a trial brings on itself, switched on and off by the conductor.

A switch is a file in the trial's folder, so that it works on a process that was started before. The clock of the
machine is a file too: what was added to the time of day, and the time that the machine has slept.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

SLOW_CALLS = "slow calls"
LOST_ANSWERS = "lost answers"
LOST_CLAIM = "lost claim"
UNREACHABLE = "unreachable"
FULL_DISK = "full disk"
READ_ONLY = "read-only medium"
STALE_LISTING = "stale listing"
ODD_ROWS = "sink refuses a row"

_CLOCK = struct.Struct("<dd")


class Switches:
    """The switches of a trial."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "switches"
        self._folder.mkdir(exist_ok=True)

    def on(self, fault: str) -> bool:
        """Return whether a fault is switched on for this process."""
        return self._file(fault, os.getpid()).exists()

    def switch(self, fault: str, pid: int, *, on: bool) -> None:
        """Switch a fault of one process on or off."""
        file = self._file(fault, pid)
        if on:
            file.touch()
        else:
            file.unlink(missing_ok=True)

    def on_for_all(self, fault: str) -> bool:
        """Return whether a fault is switched on for every process."""
        return self._file(fault, 0).exists()

    def switch_for_all(self, fault: str, *, on: bool) -> None:
        """Switch a fault of every process on or off."""
        self.switch(fault, 0, on=on)

    def all_off(self) -> None:
        """Switch everything off."""
        for file in self._folder.iterdir():
            file.unlink(missing_ok=True)

    def _file(self, fault: str, pid: int) -> Path:
        return self._folder / f"{fault.replace(' ', '-')}.{pid}"


class MachineClock:
    """The clock of the machine that all processes of a trial run on: it may be set, and the machine may sleep."""

    def __init__(self, file: Path, *, create: bool = False) -> None:
        if create:
            file.write_bytes(_CLOCK.pack(0.0, 0.0))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _CLOCK.size)

    def set(self, seconds: float) -> None:
        """Set the time of day forward, or back if negative."""
        _CLOCK.pack_into(self._map, 0, self.stepped + seconds, self.slept)

    def sleep(self, seconds: float) -> None:
        """Let the machine sleep: the time of day and the time since its start go on, and `time.monotonic` does not."""
        _CLOCK.pack_into(self._map, 0, self.stepped, self.slept + seconds)

    @property
    def stepped(self) -> float:
        """The seconds that were added to the time of day."""
        return float(_CLOCK.unpack_from(self._map)[0])

    @property
    def slept(self) -> float:
        """The seconds that the machine has slept."""
        return float(_CLOCK.unpack_from(self._map)[1])

    def install(self) -> None:
        """Let this process live by the clock."""
        now, clock_gettime = time.time, time.clock_gettime

        def get(clock: int) -> float:
            return clock_gettime(clock) + (self.slept if clock == time.CLOCK_BOOTTIME else 0.0)

        time.time = lambda: now() + self.stepped + self.slept
        time.clock_gettime = get
