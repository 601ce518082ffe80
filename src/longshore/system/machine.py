"""Facts about this machine: its system, installed programs and free resources. Nothing raises if one is missing."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import uuid
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path

import msgspec
import psutil

from longshore.system.cache_dir import user_cache_dir
from longshore.system.processes import usable_processors

VERSION_SECONDS = 10.0
"""Seconds for a program to print its version. A browser on a busy machine takes several."""

_BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "firefox",
)
# Where browsers are installed on systems that do not put them on the path.
_BROWSER_FILES = {
    "darwin": (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Firefox.app/Contents/MacOS/firefox",
    ),
    "win32": (
        "C:/Program Files/Google/Chrome/Application/chrome.exe",
        "C:/Program Files (x86)/Google/Chrome/Application/chrome.exe",
        "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
        "C:/Program Files/Mozilla Firefox/firefox.exe",
    ),
}
_OURS = ("longshore", "aiohttp", "asyncpg", "msgspec", "playwright", "psutil", "pydantic", "selenium", "structlog")


class InstalledProgram(msgspec.Struct, frozen=True):
    """A program that is installed."""

    path: str
    version: str
    """The version that it prints; empty if it prints none."""


class Space(msgspec.Struct, frozen=True):
    """The disk under a folder."""

    folder: str
    free: int
    total: int
    """Both in bytes."""


class Interface(msgspec.Struct, frozen=True):
    """A network interface."""

    name: str
    up: bool
    addresses: tuple[str, ...]


def system() -> str:
    """Return the name and version of the operating system."""
    if sys.platform == "linux":
        with suppress(OSError):
            return f"{platform.freedesktop_os_release()['PRETTY_NAME']} ({platform.platform()})"
    return platform.platform()


def machine_name() -> str:
    """Return a name that distinguishes this machine from the others that share its work."""
    return f"{platform.node() or 'machine'}-{uuid.getnode():012x}"


def python() -> str:
    """Return the name, version and path of this Python."""
    return f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"


def packages() -> dict[str, str]:
    """Return the versions of Longshore and of the libraries it uses, as far as they are installed."""
    found = {each.name.lower(): each.version for each in distributions() if each.name}
    return {name: found[name] for name in _OURS if name in found}


def processors() -> int:
    """Return how many processors this process may use."""
    return usable_processors()


def memory() -> tuple[int, int]:
    """Return the available and the total memory in bytes."""
    now = psutil.virtual_memory()
    return int(now.available), int(now.total)


def space(folder: Path) -> Space:
    """Return the disk space of a folder, or of the nearest parent that exists."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    usage = shutil.disk_usage(there)
    return Space(str(there), usage.free, usage.total)


def interfaces() -> list[Interface]:
    """Return the network interfaces with their addresses, without hardware addresses."""
    addresses = psutil.net_if_addrs()
    return [
        Interface(name, stats.isup, tuple(a.address for a in addresses.get(name, ()) if a.family != psutil.AF_LINK))
        for name, stats in sorted(psutil.net_if_stats().items())
    ]


def online() -> bool:
    """Return whether an interface other than the loopback is up and has an address."""
    return any(i.up and any(_leads_out(address) for address in i.addresses) for i in interfaces())


def _leads_out(address: str) -> bool:
    return not address.startswith(("127.", "::1", "fe80:", "169.254."))


async def git() -> InstalledProgram | None:
    """Return the git that would be used, or None."""
    path = shutil.which("git")
    return (
        None
        if path is None
        else InstalledProgram(path, (await output_of(path, "--version")).removeprefix("git version "))
    )


async def browsers() -> list[InstalledProgram]:
    """Return the installed browsers, including those that Playwright has downloaded."""
    paths = _browsers_installed()
    # On Windows `--version` opens a window of the browser instead.
    asks = sys.platform != "win32"
    versions = await asyncio.gather(*(output_of(path, "--version") for path in paths)) if asks else [""] * len(paths)
    own = [InstalledProgram(str(folder), folder.name) for folder in _playwright_browsers()]
    return [InstalledProgram(path, version) for path, version in zip(paths, versions, strict=True)] + own


def _browsers_installed() -> list[str]:
    paths = [found for name in _BROWSERS if (found := shutil.which(name))]
    paths += [path for path in _BROWSER_FILES.get(sys.platform, ()) if Path(path).exists()]
    # Several names often point to one program; the first is the one that people know.
    return list({Path(path).resolve(): path for path in reversed(paths)}.values())[::-1]


def _playwright_browsers() -> list[Path]:
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    folder = Path(named) if named else user_cache_dir() / "ms-playwright"
    kinds = ("chromium-*", "firefox-*", "webkit-*")
    return sorted(path for kind in kinds for path in folder.glob(kind) if path.is_dir())


async def output_of(*command: str) -> str:
    """Return the first line that a program prints; empty if it fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(VERSION_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    lines = out.decode(errors="replace").strip().splitlines()
    return lines[0].strip() if process.returncode == 0 and lines else ""
