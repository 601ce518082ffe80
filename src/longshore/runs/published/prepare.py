"""From the URL of a queue to code that may run here: fetch, verify, accept, unpack, install. In this order.

Nothing of a version is imported, unpacked or installed before its fingerprint was verified and accepted.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass

from longshore.errors import PublishedCodeError
from longshore.extensions.find import require
from longshore.extensions.published_code import (
    PUBLISHED,
    PublishedVersion,
    PublishedVersions,
    read_content,
    read_versions,
)
from longshore.extensions.shared_state import SharedState
from longshore.fleet.launch.ready_code import ReadyCode
from longshore.queue import Queue
from longshore.runs.open_queue import open_existing
from longshore.runs.published.acceptance import AcceptedVersion, AcceptedVersions, queue_identity
from longshore.runs.published.environment import python_for
from longshore.runs.published.handler_code import HandlerCode, unpacked
from longshore.runs.published.unpack import unpack
from longshore.settings import Settings
from longshore.system.printable import printable
from longshore.url import mask_url

NO_STATE = "has no shared state, so it cannot carry code. Start workers with a FILE."


@dataclass(frozen=True)
class Offer:
    """A verified version that was not accepted yet, for the person who decides."""

    queue: str
    """The identity of the queue."""
    version: PublishedVersion
    code: HandlerCode
    now: float
    """The time of the queue."""
    accepted: AcceptedVersion | None
    """The version of this queue that was accepted last."""
    reading: str
    """The command that saves its files to read them."""


@dataclass(frozen=True)
class CodeRequest:
    """Which code is wanted, and how it may become accepted."""

    settings: Settings
    run: str | None = None
    accept: str | None = None
    """The fingerprint that the command line accepts."""
    program: str = "longshore"
    """The name that this program was called by."""
    command: str = "work"
    """The verb that the person can repeat with `--accept`."""
    ask: Callable[[Offer], bool] | None = None
    """Asks the person; None if there is no terminal."""
    say: Callable[[str], None] = lambda _: None
    """Called with a sentence before something takes long."""


async def ready_code(request: CodeRequest) -> ReadyCode:
    """Return the version that workers of the queue should run now. Raise `PublishedCodeError` if none may run."""
    settings = request.settings
    async with open_existing(settings) as queue:
        state = require(queue, SharedState, NO_STATE)
        versions = await read_versions(state)
        version = _wanted(versions, request)
        content = await read_content(state, version)
        now = (await state.read_entries(PUBLISHED, frozenset())).now
    code = unpacked(content, version.fingerprint)
    _see_accepted(request, version, code, now)
    file = unpack(code, version.fingerprint)
    python = await asyncio.to_thread(python_for, code.requirements, request.say)
    return ReadyCode(version.fingerprint, file, python)


async def published_code(queue: Queue, text: str | None) -> tuple[PublishedVersion, HandlerCode]:
    """Return a published version and its verified content, to look at; without `text`, the current one."""
    state = require(queue, SharedState, NO_STATE)
    versions = await read_versions(state)
    version = versions.named(text) if text is not None else versions.get(versions.current or "")
    if version is None:
        raise PublishedCodeError("No handlers are published for this queue. `longshore publish FILE` does that.")
    return version, unpacked(await read_content(state, version), version.fingerprint)


def _wanted(versions: PublishedVersions, request: CodeRequest) -> PublishedVersion:
    fingerprint = versions.for_run(request.run)
    found = versions.get(fingerprint or "")
    if found is not None:
        return found
    if fingerprint is not None and request.run in versions.pins:
        raise PublishedCodeError(
            f"Run {request.run} is pinned to version {fingerprint[:12]}, which is no longer published. The host can "
            f"publish it again, or remove the pin: longshore publish --pin none --run {request.run}"
        )
    raise PublishedCodeError(
        f"The queue {mask_url(request.settings.queue)} carries no handlers. Its host publishes them with `longshore "
        f"publish FILE`; to work with a file of your own: {request.program} {request.command} FILE"
    )


def _see_accepted(request: CodeRequest, version: PublishedVersion, code: HandlerCode, now: float) -> None:
    """Return if the version is accepted, or is being accepted now. Raise `PublishedCodeError` otherwise."""
    identity, accepted = queue_identity(request.settings.queue), AcceptedVersions()
    if accepted.has(identity, version.fingerprint):
        return
    named = (request.accept or "").strip().lower()
    if named != version.fingerprint:
        if named:
            raise PublishedCodeError(
                f"The queue carries version {version.fingerprint}, and --accept names {named}: nothing was run. Give "
                "the whole fingerprint that the host told you."
            )
        if request.ask is None:
            raise PublishedCodeError(
                f"Nothing was run: version {version.short} of this queue's code was not accepted on this machine, and "
                f"there is no terminal to ask at. '{printable(version.author)}' published it, as they say themselves.\n"
                f"To read it first:\n    {_command(request, 'publish', '--show', version.fingerprint)}\n"
                "To run it as you, with your files and your network, if you trust the people of this queue:\n    "
                f"{_command(request, request.command, '--accept', version.fingerprint)}"
            )
        reading = _command(request, "publish", "--show", version.short, "--save", "FOLDER")
        if not request.ask(Offer(identity, version, code, now, accepted.latest(identity), reading)):
            raise PublishedCodeError(
                "The code was not accepted, so nothing was run. Repeat the command to be asked again."
            )
    accepted.add(
        AcceptedVersion(queue=identity, fingerprint=version.fingerprint, author=version.author, at=time.time())
    )


def _command(request: CodeRequest, verb: str, *arguments: str) -> str:
    """Return a command that the person can copy. A queue that the environment names needs no option."""
    settings = request.settings
    named = settings.source("queue").level == "command line"
    queue = ("--queue", mask_url(settings.queue)) if named else ()
    run = ("--run", request.run) if request.run is not None and verb == request.command else ()
    return shlex.join((request.program, verb, *queue, *run, *arguments))
