"""What stands in a segment: lines of JSON, several to a zstd frame.

A frame is written whole or counts for nothing: the reader passes over one that is torn. `zstdcat` shows a segment.
"""

from __future__ import annotations

import msgspec

from longshore.scrape.records.emission import EmittedRecord, Rejected

SUFFIX = ".jsonl.zst"


class AttemptHead(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="attempt"):
    """An attempt line without its records, which are passed over unread."""

    run: str
    kind: str
    key: str
    job: str
    epoch: int
    revision: int = 0
    """0 for what the attempt itself found; higher for what a later parse of its pages found in its place."""
    at: float
    """When it was written."""


class AttemptLine(AttemptHead, frozen=True, kw_only=True, tag="attempt"):
    """The records of one attempt, all of them."""

    rejected: tuple[Rejected, ...] = ()
    records: tuple[EmittedRecord, ...] = ()


class NewAttemptLine(AttemptHead, frozen=True, kw_only=True, tag="attempt"):
    """The same, as it is written: the records are JSON already."""

    rejected: tuple[Rejected, ...]
    records: msgspec.Raw


class SettledLine(msgspec.Struct, frozen=True, tag_field="line", tag="settled"):
    """Attempts of the same writer whose settlement was accepted."""

    attempts: tuple[tuple[str, int], ...]
    """The job's id and the epoch of each."""
