"""Pin a run to one version: workers take that version for it, whatever is published later."""

from __future__ import annotations

from longshore.extensions.find import require
from longshore.extensions.published_code import PublishedVersion, pin_run, read_versions
from longshore.extensions.shared_state import SharedState
from longshore.queue import Queue

_NO_STATE = "has no shared state, so its runs cannot be pinned to a version."


async def pin(queue: Queue, run: str, text: str | None) -> PublishedVersion | None:
    """Pin a run to the version whose fingerprint begins with `text`, and return it; with None, unpin the run."""
    state = require(queue, SharedState, _NO_STATE)
    version = None if text is None else (await read_versions(state)).named(text)
    await pin_run(state, run, None if version is None else version.fingerprint)
    return version
