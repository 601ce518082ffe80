"""What is written of a job: only what can be read again, and never more than can be moved later.

A job's file grows after it was submitted: by who held it, by instants, by why it failed and how often. So what comes
from outside may have `ACCEPTED` bytes, and what is added has the room from there to `LARGEST`. That is enough, for a
failure is cut to what fits twice (as the last one and as a line of the history), and a history that would not fit any
more loses its oldest attempts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from longshore.errors import Failure, UsageError
from longshore.media.git.objects.objects import LARGEST
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.branch_files import BranchJob
from longshore.stored import UNFIT, encode, refusal

ROOM = 1 << 20
"""Bytes that what is added to a job may take: two failures, three labels, some numbers."""
ACCEPTED = LARGEST - ROOM
"""Bytes of the largest job that is taken."""
LONGEST_LABEL = 1000
"""Characters of a worker's label."""
_LARGEST_FAILURE = 256 << 10
_LONGEST_TEXTS = {"error_type": 100, "message": 10_000, "exception": 10_000, "traceback": 20_000}
"""Characters left of a failure that is too large: even if each takes six bytes they fit."""


def accepted(record: BranchJob) -> tuple[BranchJob, bytes]:
    """A record that comes from outside, as it will be read, and its content. Raises `UsageError`."""
    name = f"{record.run}/{record.kind}/{record.key}"[:200]
    what = f"The job {name!a}"
    encode(record.payload, f"{what}: its payload")
    encode(record.result, f"{what}: its result")
    try:
        # What is written is what was read: JSON that others wrote may grow when it is written again.
        read = files.decoded(msgspec.json.encode(record), BranchJob)
        content = files.written(read)
    except UNFIT as error:
        raise refusal(error, what) from error
    if len(content) > ACCEPTED:
        raise _too_large(len(content), ACCEPTED)
    return read, content


def rewritten(record: BranchJob) -> bytes:
    """The content of a record that was read and has changed; its history loses the older half while it does not fit.

    Raises `UsageError` where it does not fit without one: because of a result, or because none of us wrote the job.
    """
    while len(content := files.written(record)) > LARGEST:
        if not record.history:
            raise _too_large(len(content), LARGEST)
        record.history = record.history[(len(record.history) + 1) // 2 :]
    return content


def storable(value: Any, what: str) -> msgspec.Raw:
    """A value encoded, so that it can be written later whatever its maker does to it. Raises `UsageError`."""
    encoded = encode(value, what)
    try:
        return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(encoded)))
    except UNFIT as error:
        raise refusal(error, what) from error


def bounded(failure: Failure) -> Failure:
    """A failure that fits; of texts that are too long, their ends. Raises `UsageError`."""
    if len(encode(failure, "A failure")) <= _LARGEST_FAILURE:
        return failure
    texts = {name: getattr(failure, name) for name in _LONGEST_TEXTS}
    cut = {
        name: text if len(text) <= _LONGEST_TEXTS[name] else f"… {text[-_LONGEST_TEXTS[name] :]}"
        for name, text in texts.items()
    }
    return msgspec.structs.replace(failure, **cut)


def _too_large(size: int, most: int) -> UsageError:
    return UsageError(
        f"A job of {size} bytes is too large for a git queue, which takes {most}. "
        "Keep large things elsewhere and put their address into the job."
    )
