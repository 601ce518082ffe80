"""The page store: raw pages as they came, kept by their content, with where each came from.

    content/ab/ab12….zst     a page's bytes, compressed, named by their SHA-256: the same page is kept once
    jobs/cd/cd34….json       what one job was answered: URL, status, headers, when, in which attempt, which content

Every file is written under another name and renamed when it is whole. Secrets in URLs and headers are masked, so a page
is found again by its URL without its secrets.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import zstandard

from longshore.errors import InputFileError
from longshore.job import Job
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.masking import mask_exchange
from longshore.system.atomic_file import write_atomically

KEPT_ATTEMPTS = 5
"""Of each job, the latest."""
_LEVEL = 3


class StoredPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a page came from."""

    method: str = "GET"
    url: str
    final_url: str = ""
    request_body: str = ""
    """The content that was sent, by its SHA-256, its secrets masked."""
    status: int
    headers: dict[str, str] = {}
    content: str
    """The page's SHA-256."""
    fetched_at: float = 0.0
    seconds: float = 0.0
    identity: str = ""


class AttemptPages(msgspec.Struct, frozen=True):
    """The pages of one attempt, in the order in which they were asked for."""

    epoch: int
    pages: tuple[StoredPage, ...]


class JobPages(msgspec.Struct, frozen=True, kw_only=True):
    """The pages of one job, by attempt, the latest last."""

    run: str
    kind: str
    key: str
    attempts: tuple[AttemptPages, ...] = ()


class PageStore:
    """A folder of pages. Any number of processes may write to it."""

    def __init__(self, folder: Path) -> None:
        """The folder is made when the first page is kept."""
        self._folder = folder

    def attempt(self, job: Job) -> PageKeeper:
        """What keeps the pages of one attempt at a job."""
        return PageKeeper(self, job)

    def pages(self, job: Job) -> JobPages | None:
        """What is known of a job's pages; None where nothing is. `InputFileError` where that is damaged."""
        path = self._of_job(job)
        try:
            return msgspec.json.decode(path.read_bytes(), type=JobPages)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            # A machine that lost its power may leave a file that is empty.
            raise InputFileError(f"{path}, which says what pages a job has, is damaged: {error}") from error

    def exchanges(self, job: Job) -> list[Exchange]:
        """What a job was answered, as it is to be answered again: for each request the latest attempt that got a good
        answer (below 400), else the latest that got any. Pages whose content is gone or damaged are left out.

        `InputFileError` where what is known of them all is damaged.
        """
        known = self.pages(job)
        chosen: dict[tuple[str, str, str], tuple[bool, list[StoredPage]]] = {}
        for attempt in known.attempts if known is not None else ():
            latest: dict[tuple[str, str, str], list[StoredPage]] = {}
            for page in attempt.pages:
                latest.setdefault((page.method, page.url, page.request_body), []).append(page)
            for request, pages in latest.items():
                good = any(page.status < 400 for page in pages)
                if good or request not in chosen or not chosen[request][0]:
                    chosen[request] = (good, pages)
        found = (self._exchange(page) for _, pages in chosen.values() for page in pages)
        return [exchange for exchange in found if exchange is not None]

    def put_content(self, content: bytes) -> str:
        """Keep bytes, unless they are kept already, and give their SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._of_content(digest)
        if not _is_there(path):
            _write(path, zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content))
        return digest

    def content(self, digest: str) -> bytes | None:
        """The bytes with this SHA-256; None where they are not there, or no longer what they were."""
        path = self._of_content(digest)
        try:
            # No bound is needed: the size is written by the one who compressed it, and the digest is checked.
            found = zstandard.ZstdDecompressor().decompress(path.read_bytes())
        except FileNotFoundError:
            return None
        except (zstandard.ZstdError, MemoryError):
            # The size that it claims may be damaged, too.
            found = b""
        if hashlib.sha256(found).hexdigest() == digest:
            return found
        path.unlink(missing_ok=True)  # so that it is kept anew when it is next fetched
        return None

    def put_pages(self, job: Job, pages: tuple[StoredPage, ...]) -> None:
        """Keep what an attempt was answered, beside what earlier attempts were, as far as that can be read."""
        try:
            known = self.pages(job)
        except InputFileError:
            # Of no use to anybody. Readers are told; what is known now takes its place.
            known = None
        others = [] if known is None else [attempt for attempt in known.attempts if attempt.epoch != job.epoch]
        attempts = sorted([*others, AttemptPages(job.epoch, pages)], key=lambda attempt: attempt.epoch)
        kept = JobPages(run=job.run, kind=job.kind, key=job.key, attempts=tuple(attempts[-KEPT_ATTEMPTS:]))
        _write(self._of_job(job), msgspec.json.encode(kept))

    def _exchange(self, page: StoredPage) -> Exchange | None:
        body = self.content(page.content)
        sent = self.content(page.request_body) if page.request_body else b""
        if body is None:
            return None
        return Exchange(
            method=page.method,
            url=page.url,
            final_url=page.final_url,
            request_body=sent or b"",
            status=page.status,
            headers=page.headers,
            body=body,
            at=page.fetched_at,
            seconds=page.seconds,
            identity=page.identity,
        )

    def _of_content(self, digest: str) -> Path:
        return self._folder / "content" / digest[:2] / f"{digest}.zst"

    def _of_job(self, job: Job) -> Path:
        # Not by id: that is the medium's, and a job that moves to another queue keeps its pages.
        digest = hashlib.sha256("\0".join((job.run, job.kind, job.key)).encode()).hexdigest()
        return self._folder / "jobs" / digest[:2] / f"{digest}.json"


class PageKeeper:
    """Keeps the pages of one attempt: each as it comes, and at the end which they were."""

    def __init__(self, store: PageStore, job: Job) -> None:
        self._store = store
        self._job = job
        self._pages: list[StoredPage] = []
        self._fault: OSError | None = None

    def add(self, exchange: Exchange) -> None:
        """Keep an answer. An exchange without one leaves nothing.

        Raises nothing where the disk is full: the handler has its page, and `close` says that it was not kept.
        """
        if exchange.status is None:
            return
        try:
            self._add(exchange, exchange.status)
        except OSError as error:
            self._fault = error

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
            )
        )

    def close(self) -> None:
        """The attempt is over, however it ended. Raises `OSError` where a page could not be kept."""
        pages, self._pages = self._pages, []
        fault, self._fault = self._fault, None
        if pages:
            self._store.put_pages(self._job, tuple(pages))
        if fault is not None:
            raise fault


def _is_there(path: Path) -> bool:
    """Whether the file is there, and not one that a machine without power left empty."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _write(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
