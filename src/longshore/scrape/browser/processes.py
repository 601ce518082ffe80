"""A browser's processes: found, weighed, and ended to the last."""

from __future__ import annotations

import contextlib
import os
import time

import psutil

from longshore.system.processes import kill_group, leads_group, leaves_zombies, reap

_ROUNDS = 20
_ROUND_SECONDS = 0.5


def family(root: psutil.Process) -> list[psutil.Process]:
    """A process and its descendants; none where it is gone, though another may have its number now."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def runs(process: psutil.Process) -> bool:
    """Whether a process is there and alive."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def memory_of(root: int) -> int:
    """Bytes in memory, over all processes of a browser. What they share is counted for each."""
    total = 0
    try:
        members = family(psutil.Process(root))
    except psutil.Error:
        return 0
    for process in members:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def end_family(members: list[psutil.Process], *, waited_for: int | None = None) -> None:
    """Kill processes, their descendants and the groups they lead. When this returns, none of them runs.

    The exit status of `waited_for` is left for whoever started it. Looks again after each round: a process may have
    started another between the look and the kill.
    """
    known = {process.pid: process for process in members if process.pid != os.getpid()}
    for _ in range(_ROUNDS):
        for process in list(known.values()):
            for each in family(process) if runs(process) else ():
                known.setdefault(each.pid, each)
        doomed = [process for process in known.values() if runs(process)]
        if not doomed:
            break
        for process in doomed:
            _kill(process)
        until = time.monotonic() + _ROUND_SECONDS
        while any(runs(process) for process in doomed) and time.monotonic() < until:
            time.sleep(0.005)
    until = time.monotonic() + _ROUND_SECONDS
    while _unburied(known, waited_for) and time.monotonic() < until:
        time.sleep(0.005)


def bury_strays() -> None:
    """Collect the crash handlers that browsers set free, where they became our children: each start leaves some."""
    if not leaves_zombies():
        return
    until = time.monotonic() + _ROUND_SECONDS
    while time.monotonic() < until:
        strays = [each for each in psutil.Process().children() if _is_crash_handler(each)]
        for each in strays:
            with contextlib.suppress(ChildProcessError):
                reap(each.pid)
        if not strays:
            return
        # They end by themselves when they lose their browser.
        time.sleep(0.005)


def _is_crash_handler(process: psutil.Process) -> bool:
    try:
        return process.name().startswith("chrome_crashpad")
    except psutil.Error:
        return False


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
        if process.is_running() and leads_group(process.pid):
            kill_group(process.pid)
        process.kill()


def _unburied(known: dict[int, psutil.Process], waited_for: int | None) -> bool:
    """Bury the dead that became our children, and say whether there may be more of them.

    In a container we may be the first process, and a worker's child asks for its orphans. They come to us only when the
    last thread of their parent is gone, a moment after it is dead.
    """
    if not leaves_zombies():
        return False
    more = False
    for pid, process in known.items():
        if pid == waited_for:
            continue
        with contextlib.suppress(psutil.Error, ChildProcessError):
            parent = process.ppid()
            if parent == os.getpid():
                more |= reap(pid)
            else:
                more |= parent in known
    return more
