"""The media: one package each. The scheme of the queue's URL selects one."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from longshore.address import check_spelling, full_url, scheme_of
from longshore.clock import Clock, SystemClock
from longshore.errors import SettingsError, UnknownSchemeError
from longshore.extensions.record_store import RecordStore
from longshore.queue import Queue
from longshore.url import mask_url

__all__ = ["full_url", "migrate", "open_queue", "open_records", "scheme_of"]

# scheme -> module with `async def open_queue(url, clock) -> Queue`; imported on use, as a medium may need a library.
# A medium with tables also has `async def migrate(url)`; see `migrate` below for what it returns. A medium that creates
# something when it is opened also has `async def exists(url) -> bool`, which creates nothing. A medium that needs a key
# also has `async def open_with_key(url, api_key) -> Queue`. A medium that can store records also has
# `async def open_records(url) -> RecordStore`.
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
    "https": "longshore.media.http",
    "http": "longshore.media.http",
}


class _Medium(Protocol):
    async def open_queue(self, url: str, clock: Clock) -> Queue: ...


class _WithKey(_Medium, Protocol):
    async def open_with_key(self, url: str, api_key: str) -> Queue: ...


class _WithSchema(_Medium, Protocol):
    async def migrate(self, url: str) -> tuple[int, int]: ...


class _WithExists(_Medium, Protocol):
    async def exists(self, url: str) -> bool: ...


class _WithRecords(_Medium, Protocol):
    async def open_records(self, url: str) -> RecordStore: ...


async def open_queue(url: str, *, clock: Clock | None = None, api_key: str | None = None) -> Queue:
    """Open the queue that a URL, a plain path or a plain git remote names. A queue that does not exist is created,
    by some media only with the first write. `api_key` is for a queue over HTTP; by default it is in the environment.

    Raises `UnknownSchemeError` if no medium has this scheme, `SettingsError` if the URL is misspelled, and a
    `QueueError` if the queue cannot be opened.
    """
    spelled = full_url(url)
    medium = _medium(spelled)
    if api_key is not None and hasattr(medium, "open_with_key"):
        return await cast("_WithKey", medium).open_with_key(spelled, api_key)
    return await medium.open_queue(spelled, clock or SystemClock())


async def exists(url: str) -> bool:
    """Return whether the queue exists. Creates nothing. Also True for media whose `open_queue` creates nothing.

    Raises as `open_queue` does.
    """
    spelled = full_url(url)
    medium = _medium(spelled)
    return await cast("_WithExists", medium).exists(spelled) if hasattr(medium, "exists") else True


async def migrate(url: str) -> tuple[int, int] | None:
    """Create or migrate the schema of a queue. Safe to repeat, also by many processes at once.

    Returns its version before (0 if it did not exist) and after; None if the medium has no schema.
    """
    spelled = full_url(url)
    medium = _medium(spelled)
    return await cast("_WithSchema", medium).migrate(spelled) if hasattr(medium, "migrate") else None


async def open_records(url: str) -> RecordStore:
    """Open the database that a URL names, for records; create their table if it does not exist.

    Raises `SettingsError` if the medium cannot store records, and a `QueueError` if it cannot be opened.
    """
    module = _MEDIA.get(scheme_of(url))
    medium = None if module is None else importlib.import_module(module)
    if not hasattr(medium, "open_records"):
        raise SettingsError(
            f"Records cannot be kept in '{mask_url(url)}'. Name a database: postgresql://user@host/name"
        )
    check_spelling(url)
    return await cast("_WithRecords", medium).open_records(url)


def _medium(url: str) -> _Medium:
    module = _MEDIA.get(scheme_of(url))
    if module is None:
        raise UnknownSchemeError(_unknown(url))
    check_spelling(url)
    return cast("_Medium", importlib.import_module(module))


def _unknown(url: str) -> str:
    shown = mask_url(url)
    known = ", ".join(f"{name}://" for name in _MEDIA if name != "memory")
    folder = "" if scheme_of(url) else f" If it is a folder, write ./{shown}"
    return (
        f"No queue answers to '{shown}'. A queue URL starts with one of: {known}; or it is a path with a / in it, "
        f"or a git remote that ends in .git.{folder}"
    )
