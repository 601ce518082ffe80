"""The lines of a segment: JSON, several lines to a zstd frame.

Readers skip a frame that was not written completely. `zstdcat` shows a segment.
"""

from __future__ import annotations

import msgspec

from longshore.scrape.records.emission import EmittedRecord, Rejected

SUFFIX = ".jsonl.zst"


class AttemptHead(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="attempt"):
    """An attempt line without its records, which are not decoded."""

    run: str
    kind: str
    key: str
    queue: str = ""
    """The uuid of the queue in which the attempt was made; empty in lines of an earlier version."""
    job: str
    epoch: int
    revision: int = 0
    """0 for the records of the attempt itself; higher for those of a later parse of its pages, which replace them."""
    at: float
    """When it was written."""


class AttemptLine(AttemptHead, frozen=True, kw_only=True, tag="attempt"):
    """All records of one attempt."""

    rejected: tuple[Rejected, ...] = ()
    records: tuple[EmittedRecord, ...] = ()


class NewAttemptLine(AttemptHead, frozen=True, kw_only=True, tag="attempt"):
    """An attempt line to be written: its records are already encoded."""

    rejected: tuple[Rejected, ...]
    records: msgspec.Raw


class SettledLine(msgspec.Struct, frozen=True, tag_field="line", tag="settled"):
    """A mark: attempts of the same writer whose settlement the queue accepted."""

    attempts: tuple[tuple[str, int], ...]
    """The job id and epoch of each."""
