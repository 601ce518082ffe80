"""Handlers that the queue carries: publish a version, and pin runs to one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longshore.api.loops import wait_for
from longshore.api.run_name import run_id

if TYPE_CHECKING:
    from longshore.api.run_name import Run
    from longshore.extensions.published_code import PublishedVersion


def publish(
    path: str | Path,
    *,
    entry: str | None = None,
    requirements: str | Path | None = None,
    author: str | None = None,
    note: str | None = None,
    queue: str | None = None,
) -> PublishedVersion:
    """Store a handler file or a folder in the queue, so that workers need only its URL; as `longshore publish`.

    Return the version, which is the current one from now on: its `fingerprint` is what helpers compare before they
    accept it. The options are those of the command. Raise `PublishedCodeError` if the code cannot be published.
    """
    listed = None if requirements is None else Path(requirements)
    return wait_for(_publish(Path(path), entry, listed, author, note, queue))


async def _publish(
    path: Path, entry: str | None, requirements: Path | None, author: str | None, note: str | None, queue: str | None
) -> PublishedVersion:
    from longshore.runs.open_queue import check_shared, open_or_create
    from longshore.runs.published.publishing import prepared, store
    from longshore.settings import resolve

    settings = resolve({"queue": queue})
    check_shared(settings)
    ready = await prepared(path, entry=entry, requirements=requirements, author=author, note=note)
    async with open_or_create(settings) as opened:
        return await store(opened, ready)


def pin(run: Run, version: str | None, *, queue: str | None = None) -> PublishedVersion | None:
    """Keep a run on one version, whatever is published later; None lets it take the current one again.

    `version` is a fingerprint, or the first 6 or more digits of it. The same as `longshore publish --pin`.
    """
    return wait_for(_pin(run_id(run), version, queue))


async def _pin(run: str, version: str | None, queue: str | None) -> PublishedVersion | None:
    from longshore.runs.open_queue import open_existing
    from longshore.runs.published.pins import pin as pin_run
    from longshore.settings import resolve

    async with open_existing(resolve({"queue": queue})) as opened:
        return await pin_run(opened, run, version)
