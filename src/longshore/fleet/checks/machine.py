"""Checks of the machine itself: disk, memory, git, browser, clock, sleep."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from longshore.fleet.checks.finding import CheckContext, CheckVerdict, Finding
from longshore.fleet.checks.network import file_of, nearest
from longshore.fleet.sizing.autoscale import WORKER_BYTES
from longshore.media import full_url, scheme_of
from longshore.scrape.tor import TorMissingError, find_tor
from longshore.system import machine
from longshore.system.keep_awake import awake

_LITTLE_DISK, _NO_DISK = 2**30, 100 * 2**20
_NO_MEMORY = 100 * 2**20
_INSTALL_GIT = {"darwin": "xcode-select --install", "win32": "see git-scm.com"}


async def check_disk(context: CheckContext) -> Finding:
    """Check the free space for the queue, the logs and temporary files, and that the folder is writable."""
    # In a thread: a call to a network drive whose server is gone may block for ever.
    return await asyncio.to_thread(_disk, context)


def _disk(context: CheckContext) -> Finding:
    name, folder = "disk", nearest(context.plan.folder)
    if not os.access(folder, os.W_OK):
        what = f"{folder} is not writable, and logs and results go there."
        return Finding(name, CheckVerdict.FAIL, what, "Make it writable, or work in another folder.")
    folders = [folder, Path(tempfile.gettempdir())]
    if context.settings is not None and (file := file_of(full_url(context.settings.queue))):
        folders.append(nearest(file))
    least = min((machine.space(each) for each in folders), key=lambda space: space.free)
    what = f"{gigabytes(least.free)} free under {least.folder}."
    fix = "Free some space, or move the queue, the logs or the temporary files to another disk."
    if least.free < _NO_DISK:
        return Finding(name, CheckVerdict.FAIL, f"Only {what}", fix)
    return Finding(name, CheckVerdict.WARN, f"Only {what}", fix) if least.free < _LITTLE_DISK else _ok(name, what)


async def check_memory(context: CheckContext) -> Finding:
    """Check that the workers fit into the free memory."""
    name = "memory"
    free, total = machine.memory()
    workers = 1 if context.settings is None else context.settings.workers
    what = f"{gigabytes(free)} of {gigabytes(total)} free."
    fix = "Close other programs, or start fewer workers (--workers)."
    if free < _NO_MEMORY:
        return Finding(name, CheckVerdict.FAIL, f"Only {what}", fix)
    if free < workers * WORKER_BYTES:
        need = f"{workers} workers need about {gigabytes(workers * WORKER_BYTES)}"
        return Finding(name, CheckVerdict.WARN, f"Only {what} {need}, and more for their handlers.", fix)
    return _ok(name, what)


async def check_git(context: CheckContext) -> Finding:
    """Check that git is installed if the queue is a repository."""
    name, git = "git", await machine.git()
    needed = context.settings is not None and scheme_of(full_url(context.settings.queue)).startswith("git+")
    if git is None:
        if not needed:
            return _ok(name, "Not installed, and not needed for this queue.")
        how = _INSTALL_GIT.get(sys.platform, "apt install git")
        return Finding(name, CheckVerdict.FAIL, "The queue is a git repository, and git is not installed.", f"{how}.")
    if not git.version:
        verdict = CheckVerdict.FAIL if needed else CheckVerdict.WARN
        return Finding(name, verdict, f"{git.path} does not run.", "Reinstall git.")
    return _ok(name, f"{git.version} ({git.path}).")


async def check_browser(context: CheckContext) -> Finding:
    """Check that a browser is installed if the handlers use one."""
    name, loaded = "browser", await context.loaded()
    found = await machine.browsers()
    if found:
        return _ok(name, f"{found[0].version or 'Installed'} ({found[0].path}).")
    if loaded is None or loaded.fault:
        return Finding(
            name, CheckVerdict.SKIPPED, "None is installed, and it is not known whether the handlers need one."
        )
    if not loaded.browsers:
        return _ok(name, "None is installed, and the handlers need none.")
    library = loaded.browsers[0]
    how = "playwright install chromium" if library in {"playwright", "kit.browser"} else "install Chrome or Chromium"
    what = f"The handlers use {library}, and no browser is installed."
    return Finding(name, CheckVerdict.FAIL, what, f"{how[0].upper()}{how[1:]} (Debian: apt install chromium).")


async def check_tor(context: CheckContext) -> Finding:
    """Check that Tor is installed if the settings send requests through it."""
    if context.settings is None or not context.settings.tor:
        return _ok("tor", "Not used.")
    try:
        return _ok("tor", f"{find_tor()}; each worker starts its own.")
    except TorMissingError as error:
        what, _, fix = str(error).partition(" Fix: ")
        return Finding("tor", CheckVerdict.FAIL, what, fix[0].upper() + fix[1:])


async def check_sleep(context: CheckContext) -> Finding:
    """Check that a worker can keep this machine from going to sleep."""
    del context
    # In a thread: the system is asked by calls that may block.
    return await asyncio.to_thread(_sleep)


def _sleep() -> Finding:
    possible = True

    def cannot() -> None:
        nonlocal possible
        possible = False

    with awake(wanted=True, cannot=cannot):
        pass
    if possible:
        return _ok("sleep", "The machine does not go to sleep while a worker runs.")
    what = (
        "This system offers no way to prevent sleep, as on most servers, which do not sleep. Check a laptop's settings."
    )
    return Finding("sleep", CheckVerdict.SKIPPED, what)


async def check_clock(_: CheckContext) -> Finding:
    """Check that the clock is not before the time when Longshore was installed."""
    return clock_finding(time.time(), os.stat(machine.__file__).st_mtime)  # noqa: PTH116  the file exists


def clock_finding(now: float, installed: float) -> Finding:
    """Return the finding for a clock that shows `now`, if Longshore was installed at `installed`."""
    shown = datetime.fromtimestamp(now, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    # A day of tolerance: unpacked archives may have file times of another time zone.
    if now < installed - 86400:
        what = f"The clock says {shown}, which is before Longshore was installed."
        return Finding("clock", CheckVerdict.FAIL, what, "Set the clock; best let the system keep it (NTP).")
    return _ok("clock", f"{shown}.")


def gigabytes(count: int) -> str:
    """Return a size in bytes as text, in GB or MB."""
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def _ok(name: str, what: str) -> Finding:
    return Finding(name, CheckVerdict.OK, what)
