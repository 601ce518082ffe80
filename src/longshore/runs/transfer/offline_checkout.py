"""Offline checkouts: jobs taken to a place from which their queue cannot be reached, and the checkout file.

A checkout is a queue of its own, in a file or folder that can be carried away, with a checkout file beside it. Its jobs
are pending, and workers work on them as on any others. In the queue they came from (the source), a worker that belongs
to the checkout holds them for the agreed time; `offline_merge` brings their outcomes back.

The checkout file is written in this order, so that a checkout can be resumed wherever the process dies: first the
identity of the claiming worker (so that `renew` finds jobs of a claim whose reply was lost), then each claimed job, and
only then is the job added to the checkout. The file holds no password.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from longshore.errors import NotFoundError, UsageError
from longshore.job import Job
from longshore.lease import Want, WorkerId
from longshore.queue import Queue
from longshore.runs.transfer.copy_jobs import BATCH, Progress, carried, copy_limits, leases_of, taking_over
from longshore.system.atomic_file import write_atomically
from longshore.system.descriptors import sync_folder
from longshore.url import mask_url
from longshore.wrappers.worker_queue import WorkerQueue

FORMAT = 1


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are checked out, and for how long."""

    limit: int
    hold: timedelta
    run: str | None = None
    kinds: frozenset[str] | None = None
    partitions: frozenset[str] | None = None

    def want(self, worker: WorkerId, limit: int) -> Want:
        """Return the claim for up to `limit` of these jobs."""
        return Want(
            worker=worker,
            limit=limit,
            lease=self.hold,
            run=self.run,
            kinds=self.kinds,
            partitions=self.partitions,
        )


class CheckedOutJob(msgspec.Struct, frozen=True, tag="loan"):
    """A job of the checkout, as it was in the source when it was claimed."""

    id: str
    epoch: int
    attempts: int
    run: str
    kind: str
    key: str

    @property
    def name(self) -> tuple[str, str, str]:
        return self.run, self.kind, self.key


class Merged(msgspec.Struct, frozen=True, omit_defaults=True, tag="merged"):
    """Jobs that were merged back."""

    completed: tuple[str, ...] = ()
    """Ids in the source of the jobs that this checkout completed: their later follow-on jobs are merged too."""
    others: tuple[str, ...] = ()
    """Ids in the source of the jobs that failed or were released."""
    born: tuple[str, ...] = ()
    """Ids in the checkout of jobs that were created there and taken over by the source."""


class CheckoutHeader(msgspec.Struct, frozen=True, tag="bundle"):
    """The first line of a checkout file."""

    format: int
    source: str
    """The queue the jobs are from, for people. Secrets in the URL are masked."""
    worker: WorkerId
    terms: Terms


class CheckoutFile:
    """The list of a checkout's jobs: an append-only JSONL file. A line that a crash cut off is ignored.

    Several processes may append at once, so the file is never changed or truncated. Every addition begins with a line
    break, which separates it from a line that a crash may have cut off.
    """

    def __init__(self, path: Path, head: CheckoutHeader, lines: Iterable[CheckedOutJob | Merged] = ()) -> None:
        self._path = path
        self.head = head
        self.jobs: dict[str, CheckedOutJob] = {}
        self.merged: set[str] = set()
        self.completed: set[str] = set()
        self.created: set[str] = set()
        for line in lines:
            self._apply(line)

    @classmethod
    def create(cls, path: Path, source: str, terms: Terms) -> CheckoutFile:
        """Create the file, with a new worker identity. Raise `UsageError` if it exists already."""
        file = cls(path, CheckoutHeader(FORMAT, mask_url(source), WorkerId.new(f"bundle_{os.urandom(3).hex()}"), terms))
        cls.refuse_existing(path)
        try:
            write_atomically(path, msgspec.json.encode(file.head) + b"\n", durable=True)
            sync_folder(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from error
        return file

    @staticmethod
    def refuse_existing(path: Path) -> None:
        """Raise `UsageError` if the file exists already."""
        if path.exists():
            raise UsageError(
                f"There is an offline checkout already; its file is {path}. Resume it with --resume, or name a new "
                "folder or file."
            )

    @classmethod
    def read(cls, path: Path) -> CheckoutFile:
        """Read the file. Raise `NotFoundError` if there is none, `UsageError` if it is not valid."""
        try:
            written = path.read_bytes()
        except FileNotFoundError as error:
            raise NotFoundError(f"There is no checkout file at {path}.") from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}. Make it readable.") from error
        try:
            first, *rest = [line for line in written.split(b"\n") if line] or [b""]
            version = msgspec.json.decode(first, type=_Version).format
            if version > FORMAT:
                raise UsageError(f"{path} was written by a newer Longshore. Upgrade this one.")
            head = msgspec.json.decode(first, type=CheckoutHeader)
            lines = [
                msgspec.json.decode(line, type=CheckedOutJob | Merged) for line in rest if not _is_incomplete(line)
            ]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} is not a valid checkout file: {error}. Restore the file that was written with the checkout."
            ) from error
        return cls(path, head, lines)

    def add(self, lines: Sequence[CheckedOutJob | Merged]) -> None:
        """Append lines. They are on the disk when this returns."""
        if not lines:
            return
        try:
            _append(self._path, b"\n" + b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        except OSError as error:
            raise _unwritable(self._path, error) from error
        for line in lines:
            self._apply(line)

    def _apply(self, line: CheckedOutJob | Merged) -> None:
        match line:
            case CheckedOutJob():
                self.jobs[line.id] = line
            case Merged():
                self.merged.update(line.completed, line.others)
                self.completed.update(line.completed)
                self.created.update(line.born)


class _Version(msgspec.Struct):
    format: int


def _is_incomplete(line: bytes) -> bool:
    """Return whether a crash cut the line off: it ends too early or has zero bytes. Anything else is damage."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return b"\0" in line or "truncated" in str(error)
    return False


def _append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        # In one write, so that lines of another process do not come in between.
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}. The checkout cannot be merged back without it: free "
        "some space or make it writable, and give the same command again with --resume."
    )


async def prepare_checkout(checkout: Queue) -> None:
    """Create the empty queue for a checkout, before its checkout file is written.

    Raise `UsageError` if it has jobs: these could not be distinguished from the checked-out ones.
    """
    if await checkout.stats():
        raise UsageError("An offline checkout needs an empty queue, and this one has jobs. Name a new folder or file.")
    # A folder becomes a queue with the first write, but only if it holds no other file.
    await taking_over(checkout).take_over([])


async def check_out(source: WorkerQueue, checkout: Queue, file: CheckoutFile, *, progress: Progress) -> int:
    """Claim jobs by the file's terms and add them to the checkout; resume if that was begun. Return how many.

    The leases last for the agreed time, from now. Jobs of a paused run are not taken.
    """
    worker, terms = file.head.worker, file.head.terms
    await copy_limits(source, checkout, terms.run)
    held = await source.renew(worker, terms.hold)
    # Reap after renewing, so that our own expired leases stay ours. Jobs of dead workers can then be claimed.
    await source.reap()
    there = 0
    for start in range(0, len(held), BATCH):
        leases = await leases_of(source, worker, held[start : start + BATCH])
        there += await _add_jobs(source, checkout, file, [lease.job for lease in leases])
        progress(there)
    while there < terms.limit:
        leases = await source.claim(terms.want(worker, min(BATCH, terms.limit - there)))
        if not leases:
            break
        there += await _add_jobs(source, checkout, file, [lease.job for lease in leases])
        progress(there)
    return there


async def _add_jobs(source: Queue, checkout: Queue, file: CheckoutFile, jobs: Sequence[Job]) -> int:
    file.add(
        [
            CheckedOutJob(job.id, job.epoch, job.attempts, job.run, job.kind, job.key)
            for job in jobs
            if (known := file.jobs.get(job.id)) is None or known.epoch != job.epoch
        ]
    )
    await taking_over(checkout).take_over(await carried(source, jobs))
    return len(jobs)
