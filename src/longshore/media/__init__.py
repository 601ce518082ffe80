"""The media: one folder each. The URL of the queue picks which."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Protocol, cast
from urllib.parse import quote

from longshore.clock import Clock, SystemClock
from longshore.errors import SettingsError, UnknownSchemeError
from longshore.queue import Queue
from longshore.url import mask_url

# scheme -> module with `async def open_queue(url, clock) -> Queue`; imported on use, for a medium may need a library.
# One that keeps its jobs in tables also has `async def migrate(url)`; see below for what it returns.
_MEDIA = {
    "memory": "longshore.media.memory",
    "sqlite": "longshore.media.sqlite",
    "postgresql": "longshore.media.postgres",
    "postgres": "longshore.media.postgres",
    "dir": "longshore.media.directory",
    "git+https": "longshore.media.git",
    "git+http": "longshore.media.git",
    "git+ssh": "longshore.media.git",
    "git+file": "longshore.media.git",
}

# Two letters at least: one is a drive.
_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):", re.IGNORECASE)
_REMOTE = re.compile(r"ssh://.|(https?|file)://.*\.git/?\Z", re.IGNORECASE)
_SHORT_REMOTE = re.compile(r"(?P<host>[^/\\:@\s]+@[^/\\:@\s]+):/*(?P<path>[^/\s]\S*)")
# A lone word is none, for it may be anything else that was forgotten or mistyped; nor is one with a colon in front.
_PATH = re.compile(r"[a-z]:[/\\]|[^:/\\]*[/\\]|(\.\.?|~|[^:/\\]+\.(db|sqlite3?|git))\Z", re.IGNORECASE)


class _Medium(Protocol):
    async def open_queue(self, url: str, clock: Clock) -> Queue: ...


class _WithSchema(_Medium, Protocol):
    async def migrate(self, url: str) -> tuple[int, int]: ...


async def open_queue(url: str, *, clock: Clock | None = None) -> Queue:
    """Open the queue a URL, a plain path or a plain git remote names. Where there is none yet it is made,
    by some media only with the first write.

    Raises `UnknownSchemeError` where no medium answers to it, and a `QueueError` where it cannot be opened.
    """
    spelled = full_url(url)
    return await _medium(spelled).open_queue(spelled, clock or SystemClock())


async def migrate(url: str) -> tuple[int, int] | None:
    """Make the schema of a queue, or bring it up to date. Safe to repeat, and by many at once.

    Returns its version before (0 where there was none) and after; None where the medium has no schema.
    """
    spelled = full_url(url)
    medium = _medium(spelled)
    return await cast("_WithSchema", medium).migrate(spelled) if hasattr(medium, "migrate") else None


def full_url(queue: str) -> str:
    """The URL a queue goes by: plain paths and plain git remotes are spelled out, all else comes back as it is.

    What ends in `.git` is a repository, what ends in `.db`, `.sqlite` or `.sqlite3` and is no folder is a file of
    SQLite, and any other path is a folder.
    """
    if _REMOTE.match(queue):
        return f"git+{queue}"
    if short := _SHORT_REMOTE.fullmatch(queue):
        return f"git+ssh://{short['host']}/{short['path']}"
    return _url_of_path(queue) if _PATH.match(queue) else queue


def scheme_of(url: str) -> str:
    """The scheme that picks the medium; empty where there is none."""
    found = _SCHEME.match(url)
    return found["scheme"].lower() if found else ""


def _url_of_path(text: str) -> str:
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"'{text}' names no folder of anybody here. Write the whole path.") from error
    match path.suffix.lower():
        case ".git":
            whole = path.resolve().as_posix()
            return f"git+file://{'' if whole.startswith('/') else '/'}{quote(whole, safe='/:')}"
        case ".db" | ".sqlite" | ".sqlite3" if not path.is_dir():
            return f"sqlite:///{path}"
    return f"dir://{path}"


def _medium(url: str) -> _Medium:
    module = _MEDIA.get(scheme_of(url))
    if module is None:
        raise UnknownSchemeError(_unknown(url))
    return cast("_Medium", importlib.import_module(module))


def _unknown(url: str) -> str:
    shown = mask_url(url)
    if scheme_of(url) in {"http", "https"}:
        return (
            f"No queue answers to '{shown}': this Longshore has no queues over HTTP yet. If it is a git repository, "
            f"write git+{shown}"
        )
    known = ", ".join(f"{name}://" for name in _MEDIA if name != "memory")
    folder = "" if scheme_of(url) else f" If it is a folder, write ./{shown}"
    return (
        f"No queue answers to '{shown}'. A queue URL starts with one of: {known}; or it is a path with a / in it, "
        f"or a git remote that ends in .git.{folder}"
    )
