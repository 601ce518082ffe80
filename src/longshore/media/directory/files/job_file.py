"""The content of a job's file: readable JSON with a checksum, so that manual edits and torn writes are detected."""

from __future__ import annotations

import errno
import hashlib
from typing import Annotated, Any

import msgspec

from longshore import stored
from longshore.errors import Failure
from longshore.extensions.transfer import Carried
from longshore.job import FINISHED, Attempt, CameFrom, Job, JobName, NewJob
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import STATES, JobPlace, Slot, microseconds

MAX_DEPTH = 1_000_000_000
"""The greatest depth of a job. No run reaches it; a file with a greater depth was not written by Longshore."""
_NULL = msgspec.Raw(b"null")
_SEAL_START = b',\n  "seal": "'
_SEAL_END = b'"\n}\n'
_DIGEST = 8
_SEAL = len(_SEAL_START) + 2 * _DIGEST + len(_SEAL_END)


class DamagedError(Exception):
    """The job file at `path` is not as Longshore wrote it; the message is the reason. The caller rejects the file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


class JobFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a job's file. State, epoch, attempts and priority are in its path, so that a rename sets them."""

    run: str
    kind: str
    key: str
    partition: str = ""
    host: str = ""
    parent: JobName | None = None
    depth: Annotated[int, msgspec.Meta(ge=0, le=MAX_DEPTH)] = 0
    payload: msgspec.Raw
    max_attempts: int
    submitted_at: float
    settled_at: float | None = None
    worker: str | None = None
    seconds: float | None = None
    result: msgspec.Raw = _NULL
    failure: Failure | None = None
    history: tuple[Attempt, ...] = ()
    came_from: tuple[CameFrom, ...] = ()
    handler_version: str = ""

    def job(self, place: JobPlace, queue: str, holder: str | None = None) -> Job:
        """Return the job; `queue` is the uuid of the queue, and `holder` the label of the worker that holds the job."""
        slot, file = place.slot, place.file
        settled = slot in {Slot.COMPLETED, Slot.FAILED}
        if slot is Slot.CANCELLED:
            # A cancellation only renames the file, so the content describes an earlier settlement, unless the job was
            # transferred from another queue as a cancelled one.
            settled = self.settled_at is not None and microseconds(self.settled_at) == file.instant
        settled_at = self.settled_at if settled else None
        if slot is Slot.CANCELLED and not settled and file.instant is not None:
            settled_at = file.instant / 1e6
        return Job(
            id=str(file.number),
            run=self.run,
            kind=self.kind,
            key=self.key,
            payload=_decode_any(self.payload),
            priority=file.priority,
            partition=self.partition,
            host=self.host,
            parent=self.parent,
            depth=self.depth,
            state=STATES[slot],
            epoch=file.epoch,
            attempts=file.attempts,
            max_attempts=self.max_attempts,
            not_before=file.instant / 1e6 if slot is Slot.DELAYED and file.instant is not None else None,
            submitted_at=self.submitted_at,
            settled_at=settled_at,
            worker=self.worker if settled else holder,
            seconds=self.seconds if settled else None,
            result=_decode_any(self.result) if slot is Slot.COMPLETED else None,
            failure=self.failure,
            queue=queue,
            came_from=self.came_from,
            handler_version=self.handler_version if slot is Slot.COMPLETED else "",
        )


def new_record(job: NewJob, now: float) -> JobFile:
    """Return the content of a new job. Raises if it cannot be written as JSON."""
    return JobFile(
        run=job.run,
        kind=job.kind,
        key=job.key,
        partition=job.partition,
        host=job.host,
        payload=raw(job.payload, "A job's payload"),
        max_attempts=job.max_attempts,
        submitted_at=now,
    )


def with_parent(record: JobFile, parent: JobFile) -> JobFile:
    """Return the content of a follow-on job, with its parent and depth."""
    name, depth = JobName(parent.kind, parent.key), min(parent.depth + 1, MAX_DEPTH)
    return msgspec.structs.replace(record, parent=name, depth=depth)


def carried_record(carried: Carried) -> JobFile:
    """Return the content of a job that comes from another queue. Raises if it cannot be written as JSON."""
    job = carried.job
    for failure in (job.failure, *(attempt.failure for attempt in carried.history)):
        check_failure(failure)
    return JobFile(
        run=job.run,
        kind=job.kind,
        key=job.key,
        partition=job.partition,
        host=job.host,
        parent=job.parent,
        depth=job.depth,
        payload=raw(job.payload, "A job's payload"),
        max_attempts=job.max_attempts,
        submitted_at=job.submitted_at,
        settled_at=job.settled_at,
        worker=job.worker if job.state in FINISHED else None,
        seconds=job.seconds,
        result=raw(job.result, "A result"),
        failure=job.failure,
        history=carried.history,
        came_from=carried.came_from,
        handler_version=job.handler_version,
    )


def raw(value: Any, what: str) -> msgspec.Raw:
    """Return a value as JSON. Raises if it could not be read back."""
    return msgspec.Raw(stored.encode(value, what))


def check_failure(failure: Failure | None) -> None:
    """Raise if the failure could not be read back."""
    stored.encode(failure, "A failure")


def encode(record: JobFile) -> bytes:
    """Return the bytes of the file, with the checksum."""
    body = msgspec.json.format(msgspec.json.encode(record), indent=2)[:-2]
    return body + _SEAL_START + _digest(body) + _SEAL_END


def read(root: str, path: str) -> JobFile | None:
    """Return the content of a job's file; None if it does not exist. Raises `DamagedError` if it is not as written."""
    try:
        data = disk.read(f"{root}/{path}")
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in {errno.EISDIR, errno.ELOOP, errno.ENXIO}:
            raise
        raise DamagedError(path, "It has the name of a job's file, but it is not a regular file.") from error
    return decode(data, path)


def decode(data: bytes, path: str) -> JobFile:
    """Return the content of a job's file. Raises `DamagedError` if it is not as Longshore wrote it."""
    if not data.endswith(_SEAL_END) or data[-_SEAL:].find(_SEAL_START) != 0:
        raise DamagedError(path, "It has no seal at its end: it was truncated, or not written by Longshore.")
    body = data[:-_SEAL]
    if data[-_SEAL:] != _SEAL_START + _digest(body) + _SEAL_END:
        raise DamagedError(path, "Its seal does not match its content: it was edited, or the disk lost a part of it.")
    try:
        return _decode_record(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedError(path, f"It is not a job as this version writes it: {error}") from error


_decode_any = msgspec.json.Decoder().decode
_decode_record = msgspec.json.Decoder(JobFile).decode


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST).hexdigest().encode()
