"""Jobs taken away to be worked on where the queue they belong to cannot be reached, and the sheet that says so.

A bundle is a queue of its own, in a file or folder that can be carried about, with a sheet beside it. The jobs in it
are pending and are worked on like any others. In the queue they came from they are claimed by a worker of the bundle's
own, for as long as it was agreed; `merging` brings back what became of them.

The sheet is written in this order, so that whatever dies leaves nothing that cannot be gone on with:
first who claims (what was claimed by a call whose answer got lost is then told by `renew`), then each job that was
claimed, then the bundle gets the job. It holds no password.
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
from longshore.runs.transfer.copy_jobs import BATCH, Progress, carried, leases_of, taking_over
from longshore.system.atomic_file import write_atomically
from longshore.system.descriptors import sync_folder
from longshore.url import mask_url

FORMAT = 1


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken away, and for how long."""

    limit: int
    hold: timedelta
    run: str | None = None
    kinds: frozenset[str] | None = None
    partitions: frozenset[str] | None = None

    def want(self, worker: WorkerId, limit: int) -> Want:
        """What to claim."""
        return Want(
            worker=worker,
            limit=limit,
            lease=self.hold,
            run=self.run,
            kinds=self.kinds,
            partitions=self.partitions,
        )


class CheckedOutJob(msgspec.Struct, frozen=True, tag="loan"):
    """A job of the bundle as it stood in the source when it was claimed for it."""

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
    """The end of loans, by their ids in the source."""

    completed: tuple[str, ...] = ()
    """Completed there by this bundle: what else is born of them in the bundle belongs there too."""
    others: tuple[str, ...] = ()
    """Failed, or given back."""
    born: tuple[str, ...] = ()
    """Jobs that are no loans and have been brought along, by their ids in the bundle."""


class CheckoutHeader(msgspec.Struct, frozen=True, tag="bundle"):
    """The first line of a sheet."""

    format: int
    source: str
    """The queue the jobs are from, for people: what is secret in it is masked."""
    worker: WorkerId
    terms: Terms


class CheckoutFile:
    """What a bundle owes. A JSONL file that only grows; a line that a crash cut off counts as not written.

    Several may write to it at once, so nothing in it is ever changed or cut away. Every addition begins with a line
    break, which sets it off from what a crash may have left.
    """

    def __init__(self, path: Path, head: CheckoutHeader, lines: Iterable[CheckedOutJob | Merged] = ()) -> None:
        self._path = path
        self.head = head
        self.loans: dict[str, CheckedOutJob] = {}
        self.merged: set[str] = set()
        self.completed: set[str] = set()
        self.born: set[str] = set()
        for line in lines:
            self._note(line)

    @classmethod
    def begin(cls, path: Path, source: str, terms: Terms) -> CheckoutFile:
        """A new sheet, with a worker that never was before. `UsageError` where there is one already."""
        sheet = cls(
            path, CheckoutHeader(FORMAT, mask_url(source), WorkerId.new(f"bundle_{os.urandom(3).hex()}"), terms)
        )
        cls.refuse_another(path)
        try:
            write_atomically(path, msgspec.json.encode(sheet.head) + b"\n", durable=True)
            sync_folder(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from error
        return sheet

    @staticmethod
    def refuse_another(path: Path) -> None:
        """`UsageError` where there is a sheet already."""
        if path.exists():
            raise UsageError(
                f"There is a bundle already; its sheet is {path}. --resume goes on with it. For another one, name a "
                "new folder or file."
            )

    @classmethod
    def read(cls, path: Path) -> CheckoutFile:
        """The sheet that is there. `NotFoundError` where there is none, `UsageError` for one that makes no sense."""
        try:
            written = path.read_bytes()
        except FileNotFoundError as error:
            raise NotFoundError(f"There is no sheet of a bundle at {path}.") from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}. Make it readable.") from error
        try:
            first, *rest = [line for line in written.split(b"\n") if line] or [b""]
            version = msgspec.json.decode(first, type=_Version).format
            if version > FORMAT:
                raise UsageError(f"{path} was written by a newer Longshore. Upgrade this one.")
            head = msgspec.json.decode(first, type=CheckoutHeader)
            lines = [msgspec.json.decode(line, type=CheckedOutJob | Merged) for line in rest if not _is_torn(line)]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} is not, or no longer, the sheet of a bundle: {error}. Bring back the one that was written "
                "when the bundle was made."
            ) from error
        return cls(path, head, lines)

    def add(self, lines: Sequence[CheckedOutJob | Merged]) -> None:
        """Write lines down, on the disk when this returns."""
        if not lines:
            return
        try:
            _append(self._path, b"\n" + b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        except OSError as error:
            raise _unwritable(self._path, error) from error
        for line in lines:
            self._note(line)

    def _note(self, line: CheckedOutJob | Merged) -> None:
        match line:
            case CheckedOutJob():
                self.loans[line.id] = line
            case Merged():
                self.merged.update(line.completed, line.others)
                self.completed.update(line.completed)
                self.born.update(line.born)


class _Version(msgspec.Struct):
    format: int


def _is_torn(line: bytes) -> bool:
    """Whether a crash cut it off: it ends too early, or has room that was never filled. Anything else is damage."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return b"\0" in line or "truncated" in str(error)
    return False


def _append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        # In one piece, so that what another appends at the same time does not come in between.
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}. It is what lets the bundle be merged back: make room, "
        "or make it writable, and give the same command again with --resume."
    )


async def make_ready(bundle: Queue) -> None:
    """Make an empty queue of the place for a bundle, before its sheet is put there.

    `UsageError` where it has jobs: what is to be brought back must be told from what is not.
    """
    if await bundle.stats():
        raise UsageError(
            "A bundle needs a place of its own, and there are jobs in this one. Name a new folder or file."
        )
    # A folder becomes a queue with the first thing that is written; with a stranger's file in it, it would not.
    await taking_over(bundle).take_over([])


async def take_away(source: Queue, bundle: Queue, sheet: CheckoutFile, *, progress: Progress) -> int:
    """Claim what the sheet's terms say and bring it into the bundle; go on where that was begun. Returns how many.

    The leases last as long as was agreed, from now.
    """
    worker, terms = sheet.head.worker, sheet.head.terms
    held = await source.renew(worker, terms.hold)
    # After it, for what is ours stays ours: what dead workers held can be taken along.
    await source.reap()
    there = 0
    for start in range(0, len(held), BATCH):
        leases = await leases_of(source, worker, held[start : start + BATCH])
        there += await _bring(source, bundle, sheet, [lease.job for lease in leases])
        progress(there)
    while there < terms.limit:
        leases = await source.claim(terms.want(worker, min(BATCH, terms.limit - there)))
        if not leases:
            break
        there += await _bring(source, bundle, sheet, [lease.job for lease in leases])
        progress(there)
    return there


async def _bring(source: Queue, bundle: Queue, sheet: CheckoutFile, jobs: Sequence[Job]) -> int:
    sheet.add(
        [
            CheckedOutJob(job.id, job.epoch, job.attempts, job.run, job.kind, job.key)
            for job in jobs
            if (loan := sheet.loans.get(job.id)) is None or loan.epoch != job.epoch
        ]
    )
    await taking_over(bundle).take_over(await carried(source, jobs))
    return len(jobs)
