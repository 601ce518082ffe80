"""Pin a run to one version: workers take that version for it, whatever is published later."""

from __future__ import annotations

from longshore.errors import PublishedCodeError
from longshore.extensions.find import find, require
from longshore.extensions.published_code import SHORT, PublishedVersion, pin_run, read_pins, read_versions
from longshore.extensions.shared_state import SharedState
from longshore.queue import Queue

_NO_STATE = "has no shared state, so its runs cannot be pinned to a version."


async def pin(queue: Queue, run: str, text: str | None) -> PublishedVersion | None:
    """Pin a run to the version whose fingerprint begins with `text`, and return it; with None, unpin the run."""
    state = require(queue, SharedState, _NO_STATE)
    version = None if text is None else (await read_versions(state)).named(text)
    await pin_run(state, run, None if version is None else version.fingerprint)
    return version


async def check_not_pinned(queue: Queue, run: str, command: str) -> None:
    """Raise `PublishedCodeError` if a run is pinned to a published version: a file of the user is another one."""
    state = find(queue, SharedState)
    pinned = None if state is None else (await read_pins(state)).get(run)
    if pinned is not None:
        raise PublishedCodeError(
            f"Run {run} is pinned to version {pinned[:SHORT]} of the queue's handlers. Work on it without FILE: "
            f"longshore {command} --run {run}. Or remove the pin: longshore publish --pin none --run {run}"
        )
