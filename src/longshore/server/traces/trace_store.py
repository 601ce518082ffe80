"""The records, pages and failure bundles of workers over HTTP, in the data folder of the server.

The stores are those of a worker, so that every command on the machine of the server reads them as if its own workers
had written them. No path comes from a client: an attempt is named by its lease, and files are named here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from longshore.errors import InputFileError, NotFoundError, UsageError
from longshore.extensions.record_store import AttemptName
from longshore.extensions.traces import BundleEntry, BundleFiles, StoredPage
from longshore.job import Job
from longshore.lease import WorkerId
from longshore.media import open_records
from longshore.outcome import Settlement
from longshore.queue import Queue, Selection
from longshore.runs.control.bulk_action import BulkProgress, Note
from longshore.runs.control.job_filter import JobFilter
from longshore.runs.records.prune_records import prune_pages, prune_with_records
from longshore.runs.records.run_records import RecordsPlace, RunRecords
from longshore.scrape.capture.failure_bundles import FailureBundles, bundle_entry, bundles_in, sent_bundle
from longshore.scrape.capture.masking import mask_page
from longshore.scrape.capture.page_store import PageStore
from longshore.scrape.records import Emitted, RecordSink, RecordWriter, SegmentSink, next_revision
from longshore.server.traces.record_intake import RecordIntake

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


class TraceStore:
    """The records, pages and failure bundles that one server keeps."""

    def __init__(self, folder: Path, *, records_database: str | None = None, bundles: int = 1) -> None:
        """Use the data folder of the server. `bundles` is the number of bundles of each kind of failure in a run."""
        self.data_folder = folder
        self.place = RecordsPlace(folder / "records", records_database)
        self._pages = PageStore(folder / "pages")
        self.bundle_folder = folder / "bundles"
        self._bundles = FailureBundles(self.bundle_folder, each=bundles)
        self._writer = WorkerId.new("server").incarnation
        self._intake: RecordIntake | None = None
        self._revised: RecordIntake | None = None
        self._opening = asyncio.Lock()
        self._queue_uuid = ""

    # Records

    async def keep_records(
        self, queue: Queue, attempts: Sequence[tuple[Job, Emitted]]
    ) -> Mapping[AttemptName, Exception]:
        """Keep the records of claimed attempts; as `RecordIntake.keep`."""
        if not attempts:
            return {}
        uuid = await self._uuid_of(queue, attempts[0][0].id)
        return await (await self._opened()).keep([(_in_queue(job, uuid), emitted) for job, emitted in attempts])

    async def revise_records(self, attempts: Sequence[tuple[Job, Emitted]]) -> Mapping[AttemptName, Exception]:
        """Replace the records of completed jobs; as `RecordIntake.keep`."""
        async with self._opening:
            if self._revised is None:
                self._revised = RecordIntake(await self._sink(revising=True))
        return await self._revised.keep(attempts, completed=True)

    def settled(self, settlements: Sequence[Settlement], accepted: Sequence[bool]) -> None:
        """Mark the records of the attempts that the queue accepted as completed."""
        if self._intake is not None:
            self._intake.settled(settlements, accepted)

    def records(self, queue: Queue, run: str, kinds: frozenset[str] | None, job: str | None = None) -> RunRecords:
        """Return the records of a run that count; with `job`, those of this one job."""
        return self.place.records(queue, run, kinds, job)

    async def prune(self, queue: Queue, selection: Selection) -> int:
        """Prune jobs with their records."""
        await self._close_segments()
        return await prune_with_records(self.place, queue, selection)

    async def prune_pages(self, queue: Queue, wanted: JobFilter, note: Note, stop: asyncio.Event) -> BulkProgress:
        """Prune jobs with their records, page by page. `stop` ends it after the page under way."""
        await self._close_segments()
        return await prune_pages(self.place, queue, wanted, note, stop)

    async def _close_segments(self) -> None:
        """Close the files that records are written to: records in an open one could not be removed."""
        for intake in (self._intake, self._revised):
            if intake is not None:
                await intake.close()

    async def _uuid_of(self, queue: Queue, job_id: str) -> str:
        """Return the uuid of the queue. Only its jobs know it."""
        if not self._queue_uuid:
            for job in await queue.jobs(Selection(ids=frozenset({job_id})), limit=1):
                self._queue_uuid = job.queue
        return self._queue_uuid

    async def _opened(self) -> RecordIntake:
        async with self._opening:
            if self._intake is None:
                self._intake = RecordIntake(await self._sink())
            return self._intake

    async def _sink(self, *, revising: bool = False) -> RecordSink:
        folder, database = self.place
        if database is not None:
            store = await open_records(database)
            if not revising:
                return store
            try:
                return await store.revising()
            finally:
                await store.close()
        revision = await asyncio.to_thread(next_revision, folder) if revising else 0
        return SegmentSink(RecordWriter(folder, self._writer, revision=revision))

    # Pages

    async def missing(self, digests: Sequence[str]) -> list[str]:
        """Return the contents that are not stored. Raise `UsageError` if one is no SHA-256."""
        _check_digests(digests)
        return await asyncio.to_thread(lambda: [each for each in digests if not self._pages.has_content(each)])

    async def put_contents(self, contents: Sequence[bytes]) -> list[str]:
        """Store contents of pages, and return the SHA-256 of each."""
        return await asyncio.to_thread(lambda: [self._pages.put_content(each) for each in contents])

    async def put_pages(self, queue: Queue, job: Job, pages: Sequence[StoredPage]) -> None:
        """Store the list of the pages of a claimed attempt. Raise `UsageError` if a content is no SHA-256."""
        _check_digests([digest for page in pages for digest in (page.content, page.request_body) if digest])
        masked = tuple(mask_page(page) for page in pages)
        in_queue = _in_queue(job, await self._uuid_of(queue, job.id))
        await asyncio.to_thread(self._pages.put_pages, in_queue, masked)

    async def pages(self, job: Job) -> list[StoredPage]:
        """Return the pages of a job that a new parse should get."""
        return await asyncio.to_thread(self._pages.latest, job)

    async def content(self, job: Job, digest: str) -> bytes:
        """Return a page of this job, or the body of one of its requests. Raise `NotFoundError` if there is none."""
        known = {each for page in await self.pages(job) for each in (page.content, page.request_body)}
        found = await asyncio.to_thread(self._pages.content, digest) if digest and digest in known else None
        if found is None:
            raise NotFoundError(f"The job has no page {ascii(digest)[:100]}.")
        return found

    # Failure bundles

    async def keep_bundle(self, job: Job, files: BundleFiles) -> bool:
        """Store a failure bundle of an attempt at this job. Return False if there are enough of its kind.

        Raise `InputFileError` if it is none.
        """
        bundle, _ = sent_bundle(files)
        return await asyncio.to_thread(self._bundles.add, job, bundle, files.bodies, files.screenshot) is not None

    async def bundles(self) -> list[BundleEntry]:
        """Return the failure bundles, oldest first."""
        return await asyncio.to_thread(self._list_bundles)

    async def bundle(self, name: str) -> BundleEntry:
        """Return one failure bundle. Raise `NotFoundError` if there is none with this name."""
        try:
            return await asyncio.to_thread(bundle_entry, self._bundle_path(name))
        except InputFileError as error:
            raise NotFoundError(f"There is no failure bundle {ascii(name)[:100]}.") from error

    async def bundle_file(self, name: str, file: str) -> bytes:
        """Return a file of a bundle. Raise `NotFoundError` if there is none."""
        if file not in (await self.bundle(name)).files:
            raise NotFoundError(f"The failure bundle has no file {ascii(file)[:100]}.")
        return await asyncio.to_thread((self._bundle_path(name) / file).read_bytes)

    def _list_bundles(self) -> list[BundleEntry]:
        found = []
        for path in bundles_in(self.bundle_folder):
            try:
                found.append(bundle_entry(path))
            except InputFileError:
                continue  # it was just removed, or a newer version wrote it
        return found

    def _bundle_path(self, name: str) -> Path:
        if not _PLAIN_NAME.fullmatch(name):
            raise NotFoundError(f"There is no failure bundle {ascii(name)[:100]}.")
        return self.bundle_folder / name

    async def close(self) -> None:
        """Write the last marks, and close files and connections."""
        await self._close_segments()


def _check_digests(digests: Sequence[str]) -> None:
    # They become names of files.
    if not all(map(_SHA256.fullmatch, digests)):
        raise UsageError("The content of a page is named by its SHA-256, in 64 small hexadecimal digits.")


def _in_queue(job: Job, uuid: str) -> Job:
    return job if job.queue else msgspec.structs.replace(job, queue=uuid)
