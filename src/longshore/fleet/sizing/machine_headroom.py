"""Reads the resources of this machine from the system: `longshore.fleet.sizing.autoscale.Machine`.

A container or a service often gets less than the machine has; on Linux its control groups (version 2) set the limits.
Without such limits, the whole machine counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path

import psutil

from longshore.fleet.sizing.autoscale import Machine
from longshore.fleet.sizing.memory_use import footprints
from longshore.system import machine

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


class MachineHeadroom:
    """Reads the resources repeatedly; the use of the processors is measured between two reads."""

    def __init__(self) -> None:
        psutil.cpu_percent()

    async def read(self, workers: Collection[int]) -> Machine:
        """Return the resources now. `workers` are the process ids of the workers."""
        busy = psutil.cpu_percent() / 100  # not in a thread: it compares with the last call in the same thread
        return await asyncio.to_thread(self._read, busy, workers)

    def _read(self, busy: float, workers: Collection[int]) -> Machine:
        groups = list(own_groups())
        available, total = machine.memory()
        for free, limit in memory_of(groups):
            available, total = min(available, free), min(total, limit)
        return Machine(
            available=available,
            total=total,
            processors=min([machine.processors(), *processors_of(groups)]),
            busy=busy,
            workers=tuple(footprints(workers).values()),
        )


def own_groups(own: Path = _OWN_GROUP, groups: Path = _GROUPS) -> Iterator[Path]:
    """Yield the control group of this process and its parents."""
    with suppress(OSError):
        for line in own.read_text().splitlines():
            if line.startswith("0::/"):
                group = groups / line.removeprefix("0::/")
                yield from (group, *(parent for parent in group.parents if parent.is_relative_to(groups)))


def memory_of(groups: Iterable[Path]) -> Iterator[tuple[int, int]]:
    """Yield the free bytes and the limit of each group that limits memory."""
    for group in groups:
        # There is no limit if the file is missing or contains "max".
        with suppress(OSError, ValueError):
            limit = int((group / "memory.max").read_text())
            used = int((group / "memory.current").read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            # The page cache counts as used, but the kernel drops it before a process runs out of memory.
            yield max(limit - used + int(stat.get("inactive_file", 0)), 0), limit


def processors_of(groups: Iterable[Path]) -> Iterator[int]:
    """Yield the number of processors of each group that limits processor time."""
    for group in groups:
        with suppress(OSError, ValueError):
            quota, period = (int(word) for word in (group / "cpu.max").read_text().split())
            yield max(ceil(quota / period), 1)
