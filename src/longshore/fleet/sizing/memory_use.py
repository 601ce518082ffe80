"""The memory of workers, including their child processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress

import psutil


def footprints(pids: Collection[int]) -> dict[int, int]:
    """Return the bytes that each of these processes and its descendants use. This reads the process table once."""
    children: defaultdict[int, list[psutil.Process]] = defaultdict(list)
    by_pid: dict[int, psutil.Process] = {}
    for process in psutil.process_iter(["ppid"]):
        by_pid[process.pid] = process
        children[process.info["ppid"]].append(process)
    return {pid: _sum(by_pid[pid], children) for pid in pids if pid in by_pid}


def _sum(process: psutil.Process, children: defaultdict[int, list[psutil.Process]]) -> int:
    total, left = 0, [process]
    while left:
        each = left.pop()
        left += children.get(each.pid, ())
        with suppress(psutil.Error):
            total += each.memory_info().rss
    return total
