"""`longshore publish`: let the queue carry the handlers, so that workers need only its URL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.runs.published.publishing import Published
    from longshore.settings import Settings

_COLUMNS = ["version", "", "published", "by", "size", "pinned runs", "note"]


def publish(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="FILE|DIR", help="A handler file, or a folder with one.", show_default=False),
    ] = None,
    entry: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The handler file in DIR, if its name does not tell.", show_default=False),
    ] = None,
    requirements: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The packages that the handlers need, each as name==1.2.3. Left out, the requirements.txt of DIR.",
            show_default=False,
        ),
    ] = None,
    author: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The publisher's name. Left out, your user and machine.", show_default=False),
    ] = None,
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A few words about the version.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Show what would be published, and publish nothing.")
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", metavar="", help="List the versions that the queue carries.")
    ] = False,
    show: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Show a version and its files; 'current' is one.", show_default=False),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --show: write its files there, to read them.", show_default=False),
    ] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Remove a version from the queue.", show_default=False)
    ] = None,
    pin: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="With --run: workers take this version for the run, whatever is published later. 'none' unpins it.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="ID", help="With --pin: the run.", show_default=False)] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Store handlers in the queue, so that 'longshore work --queue URL' needs no file.

    Everyone who works on the queue is shown the fingerprint and asked before the code runs on their machine. Workers
    that have accepted an earlier version finish their jobs, and stop until the new one is accepted. A VERSION is
    its fingerprint, or the first 6 or more digits of it.
    """
    from longshore.runs.open_queue import check_shared
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    check_shared(settings)
    actions = {"FILE or DIR": path, "--list": listing or None, "--show": show, "--remove": remove, "--pin": pin}
    chosen = [name for name, value in actions.items() if value is not None]
    if len(chosen) != 1:
        raise UsageError(f"Give one of {', '.join(actions)}; see longshore publish --help.")
    if (run is None) is not (pin is None):
        raise UsageError("--pin and --run belong together: longshore publish --pin VERSION --run ID.")
    if save is not None and show is None:
        raise UsageError("--save belongs to --show: longshore publish --show VERSION --save FOLDER.")
    if save is not None and save.exists() and (not save.is_dir() or any(save.iterdir())):
        raise UsageError(f"{save} exists and is not an empty folder. Name a new one.")
    if path is not None:
        from longshore.runs.published.publishing import prepared

        ready = asyncio.run(prepared(path, entry=entry, requirements=requirements, author=author, note=note))
        if dry_run:
            return _show_dry_run(ready, json=json)
        return asyncio.run(_publish(settings, ready, json=json))
    if listing:
        return asyncio.run(_list(settings, json=json))
    if show is not None:
        return asyncio.run(_show(settings, show, save))
    if remove is not None:
        return asyncio.run(_remove(settings, remove))
    return asyncio.run(_pin(settings, run or "", pin or ""))


def _show_dry_run(ready: Published, *, json: bool) -> int:
    from longshore.ui.output import write, write_json

    if json:
        write_json({"fingerprint": ready.fingerprint, "files": [each.name for each in ready.code.files]})
        return 0
    for file in ready.code.files:
        write(f"{len(file.content):>10,}  {file.name}")
    write(f"Fingerprint {ready.fingerprint}. Nothing was published.")
    return 0


async def _publish(settings: Settings, ready: Published, *, json: bool) -> int:
    from longshore.runs.open_queue import open_or_create
    from longshore.runs.published.publishing import store
    from longshore.ui.output import note, write, write_json
    from longshore.ui.program import program
    from longshore.ui.words import counted, size_words
    from longshore.url import mask_url

    async with open_or_create(settings) as queue:
        version = await store(queue, ready)
    if json:
        write_json(version)
        return 0
    files = counted(len(ready.code.files), "file")
    write(f"Published {files} ({size_words(ready.code.size)}) as version {version.short}.")
    write(f"Fingerprint: {version.fingerprint}")
    local = "" if settings.queue.startswith(("http", "git+http", "git+ssh", "postgres")) else " on this machine"
    note(f"Workers{local} need only this: {program()} work --queue {mask_url(settings.queue)}")
    if settings.queue.startswith("sqlite"):
        note("Other machines need a server in between: longshore serve")
    note("Tell them the fingerprint on another way than through the queue, so that they can compare it.")
    return 0


async def _list(settings: Settings, *, json: bool) -> int:
    from longshore.extensions.find import require
    from longshore.extensions.published_code import PUBLISHED, read_versions
    from longshore.extensions.shared_state import SharedState
    from longshore.runs.open_queue import open_existing
    from longshore.runs.published.prepare import NO_STATE
    from longshore.ui.output import write, write_json
    from longshore.ui.published.words import version_rows
    from longshore.ui.tables import write_table

    async with open_existing(settings) as queue:
        state = require(queue, SharedState, NO_STATE)
        versions = await read_versions(state)
        now = (await state.read_entries(PUBLISHED, frozenset())).now
    if json:
        write_json(versions)
    elif versions.versions:
        write_table(_COLUMNS, version_rows(versions, now), cut=("note", "pinned runs", "by"), keep=("version",))
    else:
        write("The queue carries no handlers. `longshore publish FILE` publishes some.")
    return 0


async def _show(settings: Settings, text: str, save: Path | None) -> int:
    from longshore.extensions.find import require
    from longshore.extensions.published_code import PUBLISHED
    from longshore.extensions.shared_state import SharedState
    from longshore.runs.open_queue import open_existing
    from longshore.runs.published.prepare import NO_STATE, published_code
    from longshore.runs.published.unpack import write_files
    from longshore.ui.output import note, write
    from longshore.ui.published.words import version_words

    async with open_existing(settings) as queue:
        version, code = await published_code(queue, None if text == "current" else text)
        now = (await require(queue, SharedState, NO_STATE).read_entries(PUBLISHED, frozenset())).now
    write(version_words(version, code, now))
    if save is not None:
        write_files(code, save)
        note(f"Its files are in {save}. Nothing of it was run.")
    return 0


async def _remove(settings: Settings, text: str) -> int:
    from longshore.runs.open_queue import open_existing
    from longshore.runs.published.publishing import withdraw
    from longshore.ui.output import write

    async with open_existing(settings) as queue:
        version, was_current = await withdraw(queue, text)
    write(f"Removed version {version.short}.")
    if was_current:
        write("It was the current one: workers that run it finish their jobs and stop.")
    return 0


async def _pin(settings: Settings, run: str, text: str) -> int:
    from longshore.runs.open_queue import open_existing
    from longshore.runs.published.pins import pin
    from longshore.ui.output import write

    async with open_existing(settings) as queue:
        version = await pin(queue, run, None if text == "none" else text)
    if version is None:
        write(f"Run {run} is no longer pinned: its workers take the current version.")
    else:
        write(f"Run {run} is pinned to version {version.short}. Work on it with: longshore work --run {run}")
    return 0
