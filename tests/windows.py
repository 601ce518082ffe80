"""Windows, as far as another system can stand in for it: its names are there, and those that it lacks are not."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from longshore.system import descriptors, inotify, processes, signals, terminal

O_BINARY = 1 << 30
CREATE_NEW_PROCESS_GROUP = 0x200


class Changed:
    """A module with names of its own and without some of its names."""

    def __init__(self, module: ModuleType, missing: str = "", **own: Any) -> None:
        self._module = module
        self._missing = missing.split()
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"Windows has no {self._module.__name__}.{name}")
        return getattr(self._module, name)


def _open(path: str | Path, flags: int, mode: int = 0o777) -> int:
    if Path(path).is_dir():
        raise PermissionError(errno.EACCES, "a folder cannot be opened", str(path))
    return os.open(path, flags & ~O_BINARY, mode)


STAND_INS = {
    "os": Changed(
        os,
        "geteuid getpgid getpgrp killpg sched_getaffinity set_blocking tcgetpgrp WNOHANG"
        " O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK",
        O_BINARY=O_BINARY,
        open=_open,
    ),
    "signal": Changed(signal, "SIGHUP SIGKILL pthread_kill", SIGBREAK=signal.SIGUSR2),
    "subprocess": Changed(subprocess, CREATE_NEW_PROCESS_GROUP=CREATE_NEW_PROCESS_GROUP),
    "sys": Changed(sys, platform="win32"),
}
MISSING_MODULES = ("fcntl", "resource", "termios")
SYSTEM = (descriptors, inotify, processes, signals, terminal)


def become_windows(patch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    """Have these modules run on Windows: what they use of another system raises `AttributeError`, as it does there.

    Only theirs is changed: libraries were imported for the system this is.
    """
    for module in modules:
        for name in STAND_INS.keys() & vars(module).keys():
            patch.setattr(module, name, STAND_INS[name])
    for name in MISSING_MODULES:
        patch.setitem(sys.modules, name, None)
