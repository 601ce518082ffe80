"""What this machine has to give to workers, read from the system: `longshore.fleet.sizing.autoscale.Machine`.

A container or a service is often given less than the machine has; on Linux its control groups (version 2) say how much.
Where they say nothing, the whole machine is meant.
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
    """Reads it again and again; how busy the processors are is measured from one reading to the next."""

    def __init__(self) -> None:
        psutil.cpu_percent()

    async def read(self, workers: Collection[int]) -> Machine:
        """What there is now, with these processes as the workers."""
        busy = psutil.cpu_percent() / 100  # it compares with the last call in the same thread, so not in another
        return await asyncio.to_thread(self._read, busy, workers)

    def _read(self, busy: float, workers: Collection[int]) -> Machine:
        groups = list(own_groups())
        available, total = machine.memory()
        for room, limit in memory_of(groups):
            available, total = min(available, room), min(total, limit)
        return Machine(
            available=available,
            total=total,
            processors=min([machine.processors(), *processors_of(groups)]),
            busy=busy,
            workers=tuple(footprints(workers).values()),
        )


def own_groups(own: Path = _OWN_GROUP, groups: Path = _GROUPS) -> Iterator[Path]:
    """The control group of this process, and those around it."""
    with suppress(OSError):
        for line in own.read_text().splitlines():
            if line.startswith("0::/"):
                group = groups / line.removeprefix("0::/")
                yield from (group, *(parent for parent in group.parents if parent.is_relative_to(groups)))


def memory_of(groups: Iterable[Path]) -> Iterator[tuple[int, int]]:
    """For each group that limits memory: what is left of it, and the limit."""
    for group in groups:
        # No such file, or the word "max": no limit.
        with suppress(OSError, ValueError):
            limit = int((group / "memory.max").read_text())
            used = int((group / "memory.current").read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            # Files that were read lately are counted, and are dropped before anybody goes without.
            yield max(limit - used + int(stat.get("inactive_file", 0)), 0), limit


def processors_of(groups: Iterable[Path]) -> Iterator[int]:
    """For each group that limits the processors' time: how many processors that is."""
    for group in groups:
        with suppress(OSError, ValueError):
            quota, period = (int(word) for word in (group / "cpu.max").read_text().split())
            yield max(ceil(quota / period), 1)
