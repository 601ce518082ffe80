"""The process tree of a browser: find it, measure its memory, kill it completely."""

from __future__ import annotations

import contextlib
import os
import time

import psutil

from longshore.system.processes import kill_group, leads_group, leaves_zombies, reap

_ROUNDS = 20
_ROUND_SECONDS = 0.5


def process_tree(root: psutil.Process) -> list[psutil.Process]:
    """Return a process and its descendants; empty if it has ended, even if its process id is in use again."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process is running and not a zombie."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def memory_of(root: int) -> int:
    """Return the memory of a browser in bytes, summed over its processes. Shared memory counts for each of them."""
    total = 0
    try:
        members = process_tree(psutil.Process(root))
    except psutil.Error:
        return 0
    for process in members:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def kill_tree(members: list[psutil.Process], *, waited_for: int | None = None) -> None:
    """Kill processes, their descendants and the process groups they lead. On return none of them runs.

    Do not reap `waited_for`: its parent code waits for its exit status. The search is repeated after each round,
    because a process may start another one between the search and the kill.
    """
    known = {process.pid: process for process in members if process.pid != os.getpid()}
    for _ in range(_ROUNDS):
        for process in list(known.values()):
            for each in process_tree(process) if is_alive(process) else ():
                known.setdefault(each.pid, each)
        alive = [process for process in known.values() if is_alive(process)]
        if not alive:
            break
        for process in alive:
            _kill(process)
        until = time.monotonic() + _ROUND_SECONDS
        while any(is_alive(process) for process in alive) and time.monotonic() < until:
            time.sleep(0.005)
    until = time.monotonic() + _ROUND_SECONDS
    while _reap_orphans(known, waited_for) and time.monotonic() < until:
        time.sleep(0.005)


def reap_crash_handlers() -> None:
    """Reap the detached crash handlers of browsers that became our children: each browser start leaves some."""
    if not leaves_zombies():
        return
    until = time.monotonic() + _ROUND_SECONDS
    while time.monotonic() < until:
        handlers = [each for each in psutil.Process().children() if _is_crash_handler(each)]
        for each in handlers:
            with contextlib.suppress(ChildProcessError):
                reap(each.pid)
        if not handlers:
            return
        # Crash handlers end by themselves when their browser has ended.
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


def _reap_orphans(known: dict[int, psutil.Process], waited_for: int | None) -> bool:
    """Reap killed processes that became our children, and return whether more may follow.

    We inherit orphans if we are process 1 of a container or a subreaper (a worker's child is one). The kernel hands
    them to us only when the last thread of their parent has ended, a moment after the parent died.
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
