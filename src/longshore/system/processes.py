"""Processes: their groups, how they end, and their rights."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_WITH_LIFELINE = 'exec 3<&0; "$@" </dev/null 3<&- & exec >&-; read -r _ <&3; kill -KILL 0'
"""Runs a command until standard input ends, then kills the whole group. Only the command writes to standard output."""


def new_group_flags() -> int:
    """Return the `creationflags` that keep Ctrl-C of the terminal from a new process; 0 except on Windows.

    Elsewhere `start_new_session=True` does it, which Windows ignores: give both.
    """
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP
    else:
        return 0


def inherited(*descriptors: int) -> tuple[int, ...]:
    """Return the `pass_fds` for a new process that inherits these descriptors; none on Windows, which cannot."""
    if sys.platform == "win32":
        return ()
    else:
        return descriptors


def with_lifeline(command: list[str]) -> list[str]:
    """Return a command that runs this one and kills it, with its group, when standard input ends.

    On Windows the command is unchanged: only the process that started it ends it.
    """
    if sys.platform == "win32":
        return command
    else:
        return ["/bin/sh", "-c", _WITH_LIFELINE, "longshore-lifeline", *command]


def kill_group(leader: int) -> None:
    """Kill the group that a process leads, but never our own. Do nothing if the group is gone.

    Windows has no such groups: there the processes have to be killed one by one.
    """
    if sys.platform != "win32" and leader != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def leads_group(pid: int) -> bool:
    """Return whether a process leads its own group. Raise `ProcessLookupError` if the process is gone."""
    if sys.platform == "win32":
        return False
    else:
        return os.getpgid(pid) == pid


def end_group(process: subprocess.Popen[bytes], patience: float) -> None:
    """End a process that leads a group, and the group: SIGTERM first, SIGKILL after `patience` seconds.

    Windows has no SIGTERM: there the process and its descendants are killed at once.
    """
    if sys.platform == "win32":
        _kill_descendants(process.pid)
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kill_descendants(pid: int) -> None:
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        for each in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def start_clock() -> float:
    """Return the present time by the clock in which `psutil` tells when a process started.

    On Linux that is the time since boot, added to a boot time in whole seconds: up to a second behind the usual clock.
    """
    if sys.platform == "linux":
        import psutil

        return psutil.boot_time() + time.clock_gettime(time.CLOCK_BOOTTIME)
    else:
        return time.time()


def leaves_zombies() -> bool:
    """Return whether an ended process stays in the process table until its parent collects its exit status."""
    return sys.platform != "win32"


def reap(pid: int) -> bool:
    """Collect the exit status of a child if it has ended, and return whether it still runs.

    Raise `ChildProcessError` if it is no child of this process.
    """
    if sys.platform == "win32":
        return False
    else:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)


def die_with_parent(parent: int) -> None:
    """Make Linux kill this process when its parent dies, and make it the parent of its orphaned descendants.

    On other systems it does nothing. Raise `SystemExit` if the parent is dead already.
    """
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # A process that a descendant starts and detaches stays a descendant, so that it can be found and ended.
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if os.getppid() != parent:
            raise SystemExit(1)


def process_id_scope() -> str:
    """Return a name for the processes among which a process id is unique: those of this machine, or this container."""
    scope = socket.gethostname()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            scope += f" {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  (a name, not a path)
    return scope


def runs_as_root() -> bool:
    """Return whether this process runs as root; False on Windows, which has no such user."""
    if sys.platform == "win32":
        return False
    else:
        return os.geteuid() == 0


def usable_processors() -> int:
    """Return how many processors this process may use; all of them on systems that restrict none."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1
