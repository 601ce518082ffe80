"""Limits on the content of a job: it can be read back, and it never grows too large to be written again.

A job's file grows after its submission: by labels of workers, instants and failures. So a job from a caller may have
`ACCEPTED` bytes, and the rest up to `LARGEST` is reserved for additions. That is enough: a failure is truncated so that
it fits twice (as the last failure and in the history), and a history that would not fit loses its oldest attempts.
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
"""Bytes reserved for additions to a job: two failures, three labels, some numbers."""
ACCEPTED = LARGEST - ROOM
"""Bytes of the largest job that a caller may submit."""
LONGEST_LABEL = 1000
"""The maximum number of characters in a worker's label."""
_LARGEST_FAILURE = 256 << 10
_LONGEST_TEXTS = {"error_type": 100, "message": 10_000, "exception": 10_000, "traceback": 20_000}
"""The characters kept of each text of a failure that is too large: they fit even if each takes six bytes."""


def accepted(record: BranchJob) -> tuple[BranchJob, bytes]:
    """Return a caller's record as it will be read back, and its encoded content. Raises `UsageError`."""
    name = f"{record.run}/{record.kind}/{record.key}"[:200]
    what = f"The job {name!a}"
    encode(record.payload, f"{what}: its payload")
    encode(record.result, f"{what}: its result")
    try:
        # Encode what was decoded: JSON that others wrote may grow when it is encoded again.
        read = files.decoded(msgspec.json.encode(record), BranchJob)
        content = files.written(read)
    except UNFIT as error:
        raise refusal(error, what) from error
    if len(content) > ACCEPTED:
        raise _too_large(len(content), ACCEPTED)
    return read, content


def rewritten(record: BranchJob) -> bytes:
    """Return the encoded content of a changed record; while it is too large, drops the older half of its history.

    Raises `UsageError` if it is too large without a history: its result is too large, or the job is foreign.
    """
    while len(content := files.written(record)) > LARGEST:
        if not record.history:
            raise _too_large(len(content), LARGEST)
        record.history = record.history[(len(record.history) + 1) // 2 :]
    return content


def storable(value: Any, what: str) -> msgspec.Raw:
    """Return a value encoded, so that later changes by the caller have no effect. Raises `UsageError`."""
    encoded = encode(value, what)
    try:
        return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(encoded)))
    except UNFIT as error:
        raise refusal(error, what) from error


def bounded(failure: Failure) -> Failure:
    """Return a failure that fits; keeps the ends of texts that are too long. Raises `UsageError`."""
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
        "Store large data elsewhere and put its address into the job."
    )
