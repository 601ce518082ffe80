"""Traces: the records, kept pages and failure bundles of workers, kept by the queue itself.

On most media each worker keeps them in a folder of its own machine. A worker over HTTP may have no machine of its own
to keep anything on, so the server keeps them beside its queue, as workers on its own machine would.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from longshore.extensions.record_store import NewRecords, Record, RecordCounts
from longshore.job import Job


class ExchangeKind(StrEnum):
    """How an exchange came about."""

    HTTP = "http"
    """A request of `kit.http`."""
    OPENED = "opened"
    """A URL that was opened in a browser page; it has no body."""
    LOADED = "loaded"
    """A response that a browser page loaded: its document, scripts, style sheets, data."""
    DOCUMENT = "document"
    """The document of a browser page as the handler read it, after scripts have changed it."""


class StoredPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The origin of a page and its content."""

    method: str = "GET"
    url: str
    final_url: str = ""
    request_body: str = ""
    """The SHA-256 of the masked request body."""
    status: int
    headers: dict[str, str] = {}
    content: str
    """The SHA-256 of the page."""
    fetched_at: float = 0.0
    seconds: float = 0.0
    identity: str = ""
    kind: ExchangeKind = ExchangeKind.HTTP


class BundleFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a failure bundle."""

    bundle: msgspec.Raw
    """The content of `bundle.json`."""
    bodies: list[bytes] = []
    """The body of each exchange, in order."""
    screenshot: bytes = b""


class BundleEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A failure bundle in a list."""

    name: str
    run: str
    kind: str
    job: str
    """The id of the job."""
    epoch: int
    error: str
    """The full name of the exception, or the type of the failure."""
    message: str
    place: str
    """The line of the user's code, for people."""
    worker: str
    at: float
    bytes: int
    files: list[str]
    """The names of its files, `bundle.json` first."""

    @property
    def has_screenshot(self) -> bool:
        return SCREENSHOT in self.files


SCREENSHOT = "screenshot.png"


class KeptRecords(Protocol):
    """The records of one process, as the queue keeps them; a record sink without an end."""

    def put(self, job: Job, emitted: NewRecords) -> None:
        """Add the records of a completed attempt. `job` is the job as it was claimed."""

    def settled(self, job_id: str, epoch: int) -> None:
        """Do nothing: the queue itself knows which attempts it has accepted."""

    async def flush(self) -> None:
        """Return when the queue has stored the records; as `RecordStore.flush`."""

    async def close(self) -> None:
        """Send the rest."""


class TraceKeeper(Protocol):
    """The traces of the workers of one queue. A worker may add to the attempts that it claimed itself."""

    def new_records(self, *, revising: bool = False) -> KeptRecords:
        """Return the destination of new records; with `revising`, of records that replace those of completed jobs."""

    async def missing_contents(self, digests: Sequence[str]) -> list[str]:
        """Return which of the contents with these SHA-256 are not stored yet."""

    async def put_contents(self, contents: Sequence[bytes]) -> None:
        """Store contents of pages."""

    async def put_pages(self, job: Job, pages: Sequence[StoredPage]) -> None:
        """Store the list of the pages of an attempt, after their contents. `job` is the job as it was claimed."""

    async def pages(self, job: Job) -> list[StoredPage]:
        """Return the pages of a job that a new parse should get."""

    async def content(self, job: Job, digest: str) -> bytes | None:
        """Return a page of this job; None if it is not stored, or damaged."""

    async def put_bundle(self, job: Job, files: BundleFiles) -> bool:
        """Store a failure bundle of an attempt. Return False if there are enough of its kind."""

    async def bundles(self, run: str | None = None) -> list[BundleEntry]:
        """Return the stored failure bundles, oldest first."""

    async def bundle(self, name: str) -> BundleFiles:
        """Return a failure bundle. Raise `NotFoundError` if there is none with this name."""

    def records(self, run: str, kind: str | None = None) -> AsyncIterator[Record]:
        """Yield the records of a run that count, of one kind or of all, each once."""

    async def tally(self, run: str) -> RecordCounts:
        """Return how many records of a run count, and how many were rejected for which reason."""


@runtime_checkable
class KeepsTraces(Protocol):
    """Offered by a queue with the trait `keeps_traces`."""

    async def traces(self) -> TraceKeeper:
        """Return the keeper of the traces. It is closed with the queue."""
