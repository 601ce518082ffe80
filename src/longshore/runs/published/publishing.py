"""Publish, withdraw and pin versions: the side of the host."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from longshore.errors import PublishedCodeError
from longshore.extensions.find import require
from longshore.extensions.published_code import (
    PublishedVersion,
    read_versions,
    remove_version,
    store_version,
)
from longshore.extensions.shared_state import SharedState
from longshore.fleet.checks import CheckPlan
from longshore.fleet.checks.load_handlers import load_apart
from longshore.queue import Queue
from longshore.runs.published.gather import gather
from longshore.runs.published.handler_code import HandlerCode, encoded, fingerprint_of, packed
from longshore.runs.published.prepare import NO_STATE
from longshore.runs.published.unpack import write_files
from longshore.system.machine import machine_name


@dataclass(frozen=True)
class Published:
    """A version that can be stored."""

    code: HandlerCode
    fingerprint: str
    content: bytes
    """Its content as it is stored."""
    author: str
    note: str


async def prepared(
    path: Path,
    *,
    entry: str | None = None,
    requirements: Path | None = None,
    author: str | None = None,
    note: str | None = None,
) -> Published:
    """Gather, check and pack a handler file or a folder. Raise `PublishedCodeError` if it cannot be published.

    The code is imported once from a copy that has only what would be published, so a missing file is noticed here.
    """
    code = gather(path, entry=entry, requirements=requirements)
    canonical = encoded(code)
    content = packed(canonical)
    with TemporaryDirectory(prefix="longshore-publish-") as folder:
        loaded = await load_apart(CheckPlan(handler_file=write_files(code, Path(folder) / "files")))
    if loaded is not None and loaded.fault:
        raise PublishedCodeError(
            f"The handlers cannot be imported from what would be published: {loaded.fault} If a package is missing, "
            "install the requirements here as well."
        )
    return Published(code, fingerprint_of(canonical), content, author or _own_name(), note or "")


async def store(queue: Queue, published: Published) -> PublishedVersion:
    """Store a version in the queue as the current one. It may be repeated."""
    state = require(queue, SharedState, NO_STATE)
    return await store_version(
        state, published.fingerprint, published.content, author=published.author, note=published.note
    )


async def withdraw(queue: Queue, text: str) -> tuple[PublishedVersion, bool]:
    """Remove the version whose fingerprint begins with `text`; return it, and whether it was the current one.

    Raise `PublishedCodeError` if a run is pinned to it.
    """
    state = require(queue, SharedState, NO_STATE)
    versions = await read_versions(state)
    version = versions.named(text)
    runs = sorted(run for run, pinned in versions.pins.items() if pinned == version.fingerprint)
    if runs:
        raise PublishedCodeError(
            f"Version {version.short} is pinned by run {', '.join(runs)}. Unpin it first: longshore publish --pin none "
            f"--run {runs[0]}"
        )
    await remove_version(state, version)
    return version, versions.current == version.fingerprint


def _own_name() -> str:
    try:
        return f"{getpass.getuser()}@{machine_name()}"
    except (OSError, KeyError, ImportError):
        return machine_name()
