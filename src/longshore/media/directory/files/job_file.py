"""What is written in a job's file, for people and for us, sealed so that a change by hand or a torn write shows."""

from __future__ import annotations

import errno
import hashlib
from typing import Annotated, Any

import msgspec

from longshore import stored
from longshore.errors import Failure
from longshore.extensions.transfer import Carried
from longshore.job import FINISHED, Attempt, Job, JobName, NewJob
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import STATES, JobPlace, Slot, microseconds

DEEPEST = 1_000_000_000
"""How far down a job may be. No run gets there; what says that it did was not written by us."""
_NULL = msgspec.Raw(b"null")
_SEAL_START = b',\n  "seal": "'
_SEAL_END = b'"\n}\n'
_DIGEST = 8
_SEAL = len(_SEAL_START) + 2 * _DIGEST + len(_SEAL_END)


class DamagedError(Exception):
    """A job's file is not as it was written. `path` says which, the message why; its job is set aside."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


class JobFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a job's file. State, epoch, attempts and priority stand in the file's path, where renames rule."""

    run: str
    kind: str
    key: str
    partition: str = ""
    host: str = ""
    parent: JobName | None = None
    depth: Annotated[int, msgspec.Meta(ge=0, le=DEEPEST)] = 0
    payload: msgspec.Raw
    max_attempts: int
    submitted_at: float
    settled_at: float | None = None
    worker: str | None = None
    seconds: float | None = None
    result: msgspec.Raw = _NULL
    failure: Failure | None = None
    history: tuple[Attempt, ...] = ()

    def job(self, place: JobPlace, holder: str | None = None) -> Job:
        """The job as the queue shows it; `holder` is the label of the worker that has it."""
        slot, file = place.slot, place.file
        settled = slot in {Slot.COMPLETED, Slot.FAILED}
        if slot is Slot.CANCELLED:
            # A cancellation writes nothing, so the content tells of an earlier end, unless the job came with this one.
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
        )


def new_record(job: NewJob, now: float) -> JobFile:
    """What is written of a new job. Raises where JSON cannot say it."""
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


def descended(record: JobFile, parent: JobFile) -> JobFile:
    """The content of a job that the settlement of another submits."""
    name, depth = JobName(parent.kind, parent.key), min(parent.depth + 1, DEEPEST)
    return msgspec.structs.replace(record, parent=name, depth=depth)


def carried_record(carried: Carried) -> JobFile:
    """What is written of a job that another queue knew. Raises where JSON cannot say it."""
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
    )


def raw(value: Any, what: str) -> msgspec.Raw:
    """Anything as JSON that is written as it is. Raises where it could not be read back."""
    return msgspec.Raw(stored.encode(value, what))


def check_failure(failure: Failure | None) -> None:
    """Raises where it could not be read back."""
    stored.encode(failure, "A failure")


def encode(record: JobFile) -> bytes:
    """The bytes of the file."""
    body = msgspec.json.format(msgspec.json.encode(record), indent=2)[:-2]
    return body + _SEAL_START + _digest(body) + _SEAL_END


def read(root: str, path: str) -> JobFile | None:
    """The content of a job's file; None if it is not there (any more). Raises `DamagedError` if it is not a job's."""
    try:
        data = disk.read(f"{root}/{path}")
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in {errno.EISDIR, errno.ELOOP, errno.ENXIO}:
            raise
        raise DamagedError(path, "It is not a file, but something that only has the name of one.") from error
    return decode(data, path)


def decode(data: bytes, path: str) -> JobFile:
    """The content of a file. Raises `DamagedError` where it is not what was written."""
    if not data.endswith(_SEAL_END) or data[-_SEAL:].find(_SEAL_START) != 0:
        raise DamagedError(path, "It has no seal at its end: it was cut off, or written by something else.")
    body = data[:-_SEAL]
    if data[-_SEAL:] != _SEAL_START + _digest(body) + _SEAL_END:
        raise DamagedError(path, "Its seal does not fit its content: it was changed by hand, or the disk lost a part.")
    try:
        return _decode_record(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedError(path, f"It is not a job as this version writes it: {error}") from error


_decode_any = msgspec.json.Decoder().decode
_decode_record = msgspec.json.Decoder(JobFile).decode


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST).hexdigest().encode()
