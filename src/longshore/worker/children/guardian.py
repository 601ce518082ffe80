"""The guardian: a small process that outlives its worker by a moment, and takes the worker's children with it.

A worker that is killed with -9 cannot clean up, so another process must. The guardian is started with the mark that the
worker's processes have in their environment, and reads the worker's pipe:

    + PID         a child was started, in a process group of its own
    - PID         that child has been ended
    beat SECONDS  the worker is alive; kill it if the next line takes longer than SECONDS
    bye           all children have been ended; do not search for processes

At the end of the pipe, for any reason, everything still registered is killed, also processes that left their group or
their parent: these are found by the mark. It is run as a file and imports nothing of Longshore, so that it stays small.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterable

import psutil

MARK = "LONGSHORE_CHILD_OF"
"""The environment variable that names the worker a process descends from, as `worker/child`."""
STARTING_SECONDS = 0.5
"""How long it may take on a busy machine until the environment of a new process can be read."""


def end_tree(roots: Iterable[int], mark: str) -> None:
    """Kill these processes, their groups, their descendants, and every process that carries `mark` or one below it.

    Returns when none is left, except zombies, which their parent must collect. Searches again after each round, because
    a process may have started another one before it was killed.
    """
    roots = set(roots)
    for _ in range(20):
        doomed = {process for root in roots for process in _family(root)} | set(_marked(mark))
        doomed = {process for process in doomed if process.pid != os.getpid() and _lives(process)}
        for root in roots:
            _kill_group(root)
        if not doomed:
            return
        for process in doomed:
            with contextlib.suppress(psutil.Error):
                process.kill()
        # Polled, not waited for: waiting would take the exit status of a child from the process that started it.
        until = time.monotonic() + 0.5
        while any(_lives(process) for process in doomed) and time.monotonic() < until:
            time.sleep(0.005)


def _family(root: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _marked(mark: str) -> list[psutil.Process]:
    if not mark:
        raise ValueError("The mark is empty: every process of the machine would match.")
    found = []
    for process in psutil.process_iter():
        # Another user's processes cannot be read, and are not ours.
        with contextlib.suppress(psutil.Error, OSError):
            # Looked up again: psutil may remember an earlier process with the same number, and would not kill this one.
            if _carries(process, mark) and _carries(now := psutil.Process(process.pid), mark):
                found.append(now)
    return found


def _carries(process: psutil.Process, mark: str) -> bool:
    carried = _environment(process).get(MARK, "")
    return carried == mark or carried.startswith(f"{mark}/")


def _environment(process: psutil.Process) -> dict[str, str]:
    """Return the environment of a process, also of one that has just begun to run another program.

    While it does, Linux shows neither its environment nor its arguments. Kernel threads never have any, nor a program.
    """
    until = time.monotonic() + STARTING_SECONDS
    while True:
        found = process.environ()
        if found or process.cmdline() or not process.exe() or time.monotonic() >= until:
            return found
        time.sleep(0.001)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _kill_group(leader: int) -> None:
    # As `longshore.system.processes.kill_group`, which this file must not import.
    if sys.platform != "win32" and leader != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _stopped(worker: int) -> bool:
    """Return whether the worker is stopped (Ctrl-Z, a debugger), and so may go on later."""
    try:
        return bool(psutil.Process(worker).status() in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP})
    except psutil.Error:
        return False


def _read(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    lines.put("")


def main(mark: str) -> None:
    """Watch until the pipe ends, then kill (see the module)."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    worker = os.getppid()
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    children: set[int] = set()
    silence = None
    while True:
        try:
            verb, _, value = lines.get(timeout=silence).rstrip("\n").partition(" ")
        except queue.Empty:
            if _stopped(worker):
                continue
            sys.stderr.write(
                f"longshore: the worker (process {worker}) did not move for {silence:.0f} s and was killed. Most likely"
                " an async handler is stuck in C code; make it a plain `def`, which runs in a process of its own.\n"
            )
            with contextlib.suppress(psutil.Error):
                psutil.Process(worker).kill()
            break
        if verb == "+":
            children.add(int(value))
        elif verb == "-":
            children.discard(int(value))
        elif verb == "beat":
            silence = float(value)
        elif verb == "bye" and not children:
            return
        elif not verb:
            break
    # The children may be dying already from their own death signal; their descendants are found by group and mark.
    end_tree(children, mark)
    time.sleep(0.05)
    end_tree(children, mark)


if __name__ == "__main__":
    main(sys.argv[1])
