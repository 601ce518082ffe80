"""The start of the machine: which one it is, and the time since, sleep included."""

from __future__ import annotations

import ctypes
import sys
import time
from functools import cache
from pathlib import Path

if sys.platform == "linux":

    def boottime() -> float:
        """Return the seconds since the machine started, also those that it slept."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

elif sys.platform == "darwin":

    def boottime() -> float:
        """Return the seconds since the machine started, also those that it slept."""
        # Unlike `time.monotonic` and unlike the clock of this name on Linux, this one goes on while the machine sleeps.
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)

else:

    def boottime() -> float:
        """Return the seconds since the machine started; on Windows also those that it slept."""
        return time.monotonic()


@cache
def boot_id() -> str:
    """Return the identity of the machine's last start; empty if the system does not tell."""
    try:
        return _boot_id()
    except OSError:
        return ""


def _boot_id() -> str:
    if sys.platform == "linux":
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    elif sys.platform == "darwin":
        answer, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        sysctl = ctypes.CDLL(None).sysctlbyname
        refused = sysctl(b"kern.bootsessionuuid", answer, ctypes.byref(size), None, ctypes.c_size_t(0))
        return "" if refused else answer.value.decode("ascii", "replace")
    elif sys.platform == "win32":
        import winreg

        place = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return f"windows {winreg.QueryValueEx(key, 'BootId')[0]}"
    else:
        return ""
