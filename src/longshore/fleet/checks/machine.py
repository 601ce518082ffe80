"""Checks of the machine itself: disk, memory, git, browser, clock."""

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

_LITTLE_DISK, _NO_DISK = 2**30, 100 * 2**20
_NO_MEMORY = 100 * 2**20
_INSTALL_GIT = {"darwin": "xcode-select --install", "win32": "see git-scm.com"}


async def check_disk(scene: CheckContext) -> Finding:
    """There is room where the queue, the logs and temporary files go, and the folder may be written to."""
    # In a thread: a disk of a server that is gone makes whoever looks at it wait without end.
    return await asyncio.to_thread(_disk, scene)


def _disk(scene: CheckContext) -> Finding:
    name, folder = "disk", nearest(scene.plan.folder)
    if not os.access(folder, os.W_OK):
        what = f"{folder} may not be written to, and logs and results go there."
        return Finding(name, CheckVerdict.FAIL, what, "Allow it, or work in a folder of your own.")
    folders = [folder, Path(tempfile.gettempdir())]
    if scene.settings is not None and (file := file_of(full_url(scene.settings.queue))):
        folders.append(nearest(file))
    least = min((machine.space(each) for each in folders), key=lambda space: space.free)
    what = f"{gigabytes(least.free)} free under {least.folder}."
    fix = "Make room, or move the queue, the logs or the temporary files to another disk."
    if least.free < _NO_DISK:
        return Finding(name, CheckVerdict.FAIL, f"Only {what}", fix)
    return Finding(name, CheckVerdict.WARN, f"Only {what}", fix) if least.free < _LITTLE_DISK else _ok(name, what)


async def check_memory(scene: CheckContext) -> Finding:
    """The workers fit into what is free."""
    name = "memory"
    free, total = machine.memory()
    workers = 1 if scene.settings is None else scene.settings.workers
    what = f"{gigabytes(free)} of {gigabytes(total)} free."
    fix = "Close other programs, or start fewer workers (--workers)."
    if free < _NO_MEMORY:
        return Finding(name, CheckVerdict.FAIL, f"Only {what}", fix)
    if free < workers * WORKER_BYTES:
        need = f"{workers} workers need about {gigabytes(workers * WORKER_BYTES)}"
        return Finding(name, CheckVerdict.WARN, f"Only {what} {need}, and more for what they do.", fix)
    return _ok(name, what)


async def check_git(scene: CheckContext) -> Finding:
    """git is installed, where the queue is a repository."""
    name, git = "git", await machine.git()
    needed = scene.settings is not None and scheme_of(full_url(scene.settings.queue)).startswith("git+")
    if git is None:
        if not needed:
            return _ok(name, "Not installed, and not needed for this queue.")
        how = _INSTALL_GIT.get(sys.platform, "apt install git")
        return Finding(name, CheckVerdict.FAIL, "The queue is a git repository, and git is not installed.", f"{how}.")
    if not git.version:
        verdict = CheckVerdict.FAIL if needed else CheckVerdict.WARN
        return Finding(name, verdict, f"{git.path} does not run.", "Install git anew.")
    return _ok(name, f"{git.version} ({git.path}).")


async def check_browser(scene: CheckContext) -> Finding:
    """A browser is installed, where the handlers drive one."""
    name, loaded = "browser", await scene.loaded()
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


async def check_tor(scene: CheckContext) -> Finding:
    """Tor is installed, where the settings send requests through it."""
    if scene.settings is None or not scene.settings.tor:
        return _ok("tor", "Not used.")
    try:
        return _ok("tor", f"{find_tor()}; each worker starts its own.")
    except TorMissingError as error:
        what, _, fix = str(error).partition(" Fix: ")
        return Finding("tor", CheckVerdict.FAIL, what, fix[0].upper() + fix[1:])


async def check_clock(_: CheckContext) -> Finding:
    """The clock is not behind what is certain: Longshore was installed before now."""
    return clock_finding(time.time(), os.stat(machine.__file__).st_mtime)  # noqa: PTH116  a file that is there


def clock_finding(now: float, installed: float) -> Finding:
    """What a clock that shows `now` is worth, when Longshore was installed at `installed`."""
    shown = datetime.fromtimestamp(now, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    # A day of grace: archives are unpacked with times of other zones.
    if now < installed - 86400:
        what = f"The clock says {shown}, which is before Longshore was installed."
        return Finding("clock", CheckVerdict.FAIL, what, "Set the clock; best let the system keep it (NTP).")
    return _ok("clock", f"{shown}.")


def gigabytes(count: int) -> str:
    """A size as people say it."""
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def _ok(name: str, what: str) -> Finding:
    return Finding(name, CheckVerdict.OK, what)
