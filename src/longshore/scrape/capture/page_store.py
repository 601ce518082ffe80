"""The page store: the raw pages of jobs, stored by content, with the origin of each.

    content/ab/ab12….zst     a page's bytes, compressed and named by their SHA-256: equal pages are stored once
    jobs/cd/cd34….json       the responses of one job: URL, status, headers, time, attempt and content of each

Every file is written atomically. Secrets in URLs and headers are masked, so a page is looked up by its masked URL.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from longshore.errors import InputFileError
from longshore.extensions.record_store import JobInQueue
from longshore.extensions.traces import StoredPage
from longshore.job import Job
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.masking import mask_exchange
from longshore.system.atomic_file import write_atomically
from longshore.system.private_files import make_private

KEPT_ATTEMPTS = 5
"""Attempts kept per job, the latest ones."""
SPARED_SECONDS = 3600.0
"""Content that is newer than this is not removed, even if no job lists it yet."""
KEPT_OTHERS = 15
"""Attempts kept of other jobs with the same name: in another queue, or before a prune."""
_LEVEL = 3


class AttemptPages(msgspec.Struct, frozen=True):
    """The pages of one attempt, in the order of their requests."""

    epoch: int
    pages: tuple[StoredPage, ...]
    queue: str = ""
    """The uuid of the queue in which the attempt was made; empty if an earlier version stored it."""
    job: str = ""
    """The id of the job there."""

    def is_of(self, job: Job) -> bool:
        """Return whether the attempt was made at this job: here, or in a queue through which it came here."""
        if not self.queue or (self.queue, self.job) == (job.queue, job.id):
            return True
        came = (each for each in job.came_from if (each.queue, each.job) == (self.queue, self.job))
        return any(self.epoch <= each.epoch for each in came)


class JobPages(msgspec.Struct, frozen=True, kw_only=True):
    """The pages of the jobs with one name, by attempt, the latest of each job last.

    There may be several: a copy in another queue, or a job that was pruned and submitted again.
    """

    run: str
    kind: str
    key: str
    attempts: tuple[AttemptPages, ...] = ()


class RemovedPages(NamedTuple):
    """How many page lists lost pages, and how many bytes were freed."""

    lists: int
    size: int


class PageStore:
    """A folder of pages, to which any number of processes may write."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is made with the first page."""
        self._folder = folder

    def attempt(self, job: Job) -> PageKeeper:
        """Return the page keeper of one attempt at a job."""
        return PageKeeper(self, job)

    def pages(self, job: Job) -> JobPages | None:
        """Return the page list of a job; None if it has none. Raise `InputFileError` if the list is damaged."""
        path = self._job_path(job)
        try:
            return msgspec.json.decode(path.read_bytes(), type=JobPages)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            # A power failure may leave an empty file.
            raise InputFileError(f"{path}, the page list of a job, is damaged: {error}") from error

    def all(self) -> Iterator[JobPages]:
        """Yield the page lists of all jobs, except damaged ones."""
        for path in sorted(self._folder.glob("jobs/*/*.json")):
            with suppress(OSError, msgspec.MsgspecError):
                yield msgspec.json.decode(path.read_bytes(), type=JobPages)

    def exchanges(self, job: Job) -> list[Exchange]:
        """Return the exchanges to replay for a job: those of `latest`.

        Pages whose content is missing or damaged are left out. Raise `InputFileError` if the page list is damaged.
        """
        found = (exchange_of(page, self.content) for page in self.latest(job))
        return [exchange for exchange in found if exchange is not None]

    def latest(self, job: Job) -> list[StoredPage]:
        """Return the pages to replay for a job.

        For each request these are the pages of the latest attempt that got a status below 400, else of the latest
        attempt. Raise `InputFileError` if the page list is damaged.
        """
        known = self.pages(job)
        own = [attempt for attempt in known.attempts if attempt.is_of(job)] if known is not None else []
        # An attempt that an earlier version stored may be of a former life of the job, with any epoch.
        own.sort(key=lambda attempt: (attempt.queue != "", attempt.epoch))
        chosen: dict[tuple[str, ...], tuple[bool, list[StoredPage]]] = {}
        for attempt in own:
            latest: dict[tuple[str, ...], list[StoredPage]] = {}
            for page in attempt.pages:
                latest.setdefault((page.kind, page.method, page.url, page.request_body), []).append(page)
            for request, pages in latest.items():
                good = any(page.status < 400 for page in pages)
                if good or request not in chosen or not chosen[request][0]:
                    chosen[request] = (good, pages)
        return [page for _, pages in chosen.values() for page in pages]

    def has_content(self, digest: str) -> bool:
        """Return whether bytes with this SHA-256 are stored."""
        return _exists(self._content_path(digest))

    def put_content(self, content: bytes) -> str:
        """Store bytes, unless they are stored already, and return their SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._content_path(digest)
        if _exists(path):
            # So that `remove` in another process takes it for new.
            with suppress(OSError):
                os.utime(path)
        else:
            _write(path, zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content))
        return digest

    def content(self, digest: str) -> bytes | None:
        """Return the bytes with this SHA-256; None if they are missing or damaged. Damaged content is removed."""
        path = self._content_path(digest)
        try:
            # No size limit is needed: we wrote the size ourselves, and the digest is checked.
            found = zstandard.ZstdDecompressor().decompress(path.read_bytes())
        except FileNotFoundError:
            return None
        except (zstandard.ZstdError, MemoryError):
            # `MemoryError`: the stored size may be damaged as well.
            found = b""
        if hashlib.sha256(found).hexdigest() == digest:
            return found
        path.unlink(missing_ok=True)  # so that the next fetch stores it again
        return None

    def put_pages(self, job: Job, pages: tuple[StoredPage, ...]) -> None:
        """Add the pages of an attempt to the job's page list. A damaged list is replaced."""
        try:
            known = self.pages(job)
        except InputFileError:
            # The damaged list is useless; the new one replaces it.
            known = None
        new = AttemptPages(job.epoch, pages, job.queue, job.id if job.queue else "")
        others: list[AttemptPages] = []
        own = [new]
        for attempt in () if known is None else known.attempts:
            if (attempt.queue, attempt.job) != (new.queue, new.job):
                others.append(attempt)
            elif attempt.epoch != new.epoch:
                own.append(attempt)
        own.sort(key=lambda attempt: attempt.epoch)
        # Those of this job last, so that of all others with its name the ones without new pages are dropped first.
        attempts = (*others[-KEPT_OTHERS:], *own[-KEPT_ATTEMPTS:])
        kept = JobPages(run=job.run, kind=job.kind, key=job.key, attempts=attempts)
        _write(self._job_path(job), msgspec.json.encode(kept))

    def remove(self, jobs: Collection[JobInQueue], *, dry: bool = False, spare: float = SPARED_SECONDS) -> RemovedPages:
        """Remove the pages of these jobs, and every content that no other job has; if `dry`, only count them.

        Content that was stored in the last `spare` seconds stays: a worker may be about to list it.
        """
        gone = {(run, kind, key, queue, job) for run, kind, key, queue, job in jobs}
        names = {each[:3] for each in gone}
        lists = size = 0
        used: set[str] = set()
        for path in sorted(self._folder.glob("jobs/*/*.json")):
            try:
                known = msgspec.json.decode(path.read_bytes(), type=JobPages)
            except (OSError, msgspec.MsgspecError):
                continue
            name = (known.run, known.kind, known.key)
            left = known.attempts
            if name in names:
                left = tuple(each for each in left if each.queue and (*name, each.queue, each.job) not in gone)
            used.update(digest for each in left for page in each.pages for digest in (page.content, page.request_body))
            if len(left) == len(known.attempts):
                continue
            lists += 1
            size += path.stat().st_size if not left else 0
            if not dry and left:
                _write(path, msgspec.json.encode(msgspec.structs.replace(known, attempts=left)))
            elif not dry:
                path.unlink(missing_ok=True)
        return RemovedPages(lists, size + self._sweep(used, spare, dry=dry) if lists else 0)

    def _sweep(self, used: AbstractSet[str], spare: float, *, dry: bool) -> int:
        """Remove the content that is not in `used`, and return its bytes."""
        size, new = 0, time.time() - spare
        for path in self._folder.glob("content/*/*.zst"):
            with suppress(FileNotFoundError):
                known = path.stat()
                if path.stem in used or known.st_mtime > new:
                    continue
                size += known.st_size
                if not dry:
                    path.unlink()
        return size

    def _content_path(self, digest: str) -> Path:
        return self._folder / "content" / digest[:2] / f"{digest}.zst"

    def _job_path(self, job: Job) -> Path:
        # Not by id: a job that moves to another queue gets a new id and must keep its pages.
        digest = hashlib.sha256("\0".join((job.run, job.kind, job.key)).encode()).hexdigest()
        return self._folder / "jobs" / digest[:2] / f"{digest}.json"


class PageKeeper:
    """The pages of one attempt: each is stored as it arrives, their list at the end."""

    def __init__(self, store: PageStore, job: Job) -> None:
        self._store = store
        self._job = job
        self._pages: list[StoredPage] = []
        self._error: OSError | None = None

    def add(self, exchange: Exchange) -> None:
        """Store a response. An exchange without one is skipped.

        A full disk raises nothing here: the handler has its page, and `close` raises the error.
        """
        if exchange.status is None:
            return
        try:
            self._add(exchange, exchange.status)
        except OSError as error:
            self._error = error

    def _add(self, exchange: Exchange, status: int) -> None:
        shown = mask_exchange(exchange)
        self._pages.append(
            StoredPage(
                method=shown.method,
                url=shown.url,
                final_url=shown.final_url,
                request_body=self._store.put_content(shown.request_body) if shown.request_body else "",
                status=status,
                headers=dict(shown.headers),
                content=self._store.put_content(exchange.body),
                fetched_at=shown.at,
                seconds=shown.seconds,
                identity=shown.identity,
                kind=shown.kind,
            )
        )

    def close(self) -> None:
        """Store the list of pages when the attempt is over. Raise `OSError` if a page could not be stored."""
        pages, self._pages = self._pages, []
        failed, self._error = self._error, None
        if pages:
            self._store.put_pages(self._job, tuple(pages))
        if failed is not None:
            raise failed


def exchange_of(page: StoredPage, content: Callable[[str], bytes | None]) -> Exchange | None:
    """Return a stored page as an exchange, with the bytes that `content` returns; None if its bytes are missing."""
    body = content(page.content)
    if body is None:
        return None
    return Exchange(
        method=page.method,
        url=page.url,
        final_url=page.final_url,
        request_body=(content(page.request_body) if page.request_body else b"") or b"",
        status=page.status,
        headers=page.headers,
        body=body,
        at=page.fetched_at,
        seconds=page.seconds,
        identity=page.identity,
        kind=page.kind,
    )


def _exists(path: Path) -> bool:
    """Return whether the file exists and is not empty; a power failure may leave an empty file."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _write(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except FileNotFoundError:
        make_private(path.parent)
        write_atomically(path, content)
