"""Files of the branch: what they are called and what is in them.

    longshore.json                                        the format, and the next numbers to give
    lanes/12.json                                         a run, kind and partition, and how many jobs stand where
    workers/anna~0f3c….json                               a worker's heartbeat
    available_work/00000/01/000000123-12-9f86….json       a job that waits for its first attempt
    retry_queue/…                                         one that waits for another, with its failure
    active_work/anna~0f3c…/000000123-12-9f86….e1.json     one in a worker's hands
    completed_work/…   failed_work/…   cancelled_work/…   those that are finished
    rejected_work/…                                       files in the place of a job that hold none
    notes/schedules~41d0…/nightly~7c3e….json              a note on its shelf
    archive/2026-11/000004-5000.jsonl.gz                  completed ones, packed; the name says how many

A job's name says all that is needed to choose it without opening it: its number (which is its age), its lane, what it
is (run, kind and key, hashed), and where they are not the usual ones its host (.h, hashed), its priority (.p), the
millisecond it waits for (.t) and its epoch (.e). State, epoch and holder are said by the path alone, so a claim moves a
file and rewrites none. Format 1 had no hosts in names; see `upgrade`.
"""

from __future__ import annotations

import hashlib
import math
import re
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec

from longshore.errors import Failure, ForeignQueueError, NewerSchemaError
from longshore.extensions.transfer import Carried
from longshore.job import DEFAULT_MAX_ATTEMPTS, Attempt, Job, JobName, NewJob, State
from longshore.lease import WorkerId

T = TypeVar("T")

FORMAT = 2
META = "longshore.json"
LANES, WORKERS, ARCHIVE, REJECTED, NOTES = "lanes", "workers", "archive", "rejected_work", "notes"
AVAILABLE, RETRY, ACTIVE = "available_work", "retry_queue", "active_work"
FOLDERS = {
    AVAILABLE: State.PENDING,
    RETRY: State.PENDING,
    ACTIVE: State.CLAIMED,
    "completed_work": State.COMPLETED,
    "failed_work": State.FAILED,
    "cancelled_work": State.CANCELLED,
}
DEEPEST = 1_000_000_000
"""How far down a job may be. No run gets there; what says that it did was not written by us."""
FINISHED_FOLDERS = {State.COMPLETED: "completed_work", State.FAILED: "failed_work", State.CANCELLED: "cancelled_work"}
_NAME = re.compile(
    r"(?P<number>\d{9,15})-(?P<lane>\d{1,9})-(?P<identity>[0-9a-f]{32})"
    r"(?:\.h(?P<host>[0-9a-f]{12}))?(?:\.p(?P<priority>-?\d{1,19}))?(?:\.t(?P<due>\d{1,16}))?(?:\.e(?P<epoch>\d{1,15}))?\.json"
)
_SHARDED = re.compile(r"(?P<folder>\w+)/\d{5,}/\d\d/(?P<name>[^/]+)")
_HELD = re.compile(rf"(?P<folder>{ACTIVE})/(?P<holder>[\w~-]+)/(?P<name>[^/]+)")


class JobPath(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job stands, as its path says it."""

    number: int
    lane: int
    identity: str
    host: str = ""
    """As `host_of` says it."""
    priority: int = 0
    due: int | None = None
    """The millisecond before which it is not to be claimed."""
    epoch: int = 0
    folder: str = AVAILABLE
    holder: str = ""
    """The name of the worker's file, where one holds the job."""
    oid: str = ""
    """The file."""

    @property
    def state(self) -> State:
        return State.COMPLETED if self.is_archived else FOLDERS[self.folder]

    @property
    def is_archived(self) -> bool:
        """Whether the job is a line in a file of the archive, which `folder` names."""
        return self.folder.startswith(f"{ARCHIVE}/")

    @property
    def path(self) -> str:
        name = f"{self.number:09d}-{self.lane}-{self.identity}"
        name += f".h{self.host}" if self.host else ""
        name += f".p{self.priority}" if self.priority else ""
        name += f".t{self.due}" if self.due is not None else ""
        name += f".e{self.epoch}" if self.epoch else ""
        return f"{self.folder}/{self.holder or shard(self.number)}/{name}.json"


def shard(number: int) -> str:
    """The folders under which a job lies. No folder has more than a hundred entries until there are a million jobs."""
    return f"{number // 10_000:05d}/{number // 100 % 100:02d}"


def place_of(path: str, oid: str) -> JobPath | None:
    """What a path says, or None for one that is not a job's."""
    found = _HELD.fullmatch(path) or _SHARDED.fullmatch(path)
    if found is None or found["folder"] not in FOLDERS:
        return None
    held = found["folder"] == ACTIVE
    name = _NAME.fullmatch(found["name"])
    if name is None or held != ("holder" in found.groupdict()):
        return None
    place = JobPath(
        number=int(name["number"]),
        lane=int(name["lane"]),
        identity=name["identity"],
        host=name["host"] or "",
        priority=int(name["priority"] or 0),
        due=int(name["due"]) if name["due"] else None,
        epoch=int(name["epoch"] or 0),
        folder=found["folder"],
        holder=found["holder"] if held else "",
        oid=oid,
    )
    # Only the one true spelling counts; else a second file could claim to be the same job. Numbers begin at one.
    return place if place.path == path and place.number else None


class BranchJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a job's file holds."""

    run: str
    kind: str
    key: str
    payload: dict[str, Any]
    priority: int = 0
    partition: str = ""
    host: str = ""
    parent: JobName | None = None
    depth: Annotated[int, msgspec.Meta(ge=0, le=DEEPEST)] = 0
    attempts: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    not_before: float | None = None
    submitted_at: float = 0.0
    settled_at: float | None = None
    worker: str | None = None
    seconds: float | None = None
    result: Any = None
    failure: Failure | None = None
    history: list[Attempt] = []

    @classmethod
    def of(cls, job: NewJob, now: float) -> BranchJob:
        """A new job's."""
        return cls(
            run=job.run,
            kind=job.kind,
            key=job.key,
            payload=job.payload,
            priority=job.priority,
            partition=job.partition,
            host=job.host,
            max_attempts=job.max_attempts,
            not_before=job.not_before,
            submitted_at=now,
        )

    def born_of(self, parent: BranchJob, now: float) -> BranchJob:
        """This new job's, brought by the settlement of another and so a part of its run."""
        return msgspec.structs.replace(
            self,
            run=parent.run,
            parent=JobName(parent.kind, parent.key),
            depth=min(parent.depth + 1, DEEPEST),
            submitted_at=now,
        )

    @classmethod
    def carried(cls, carried: Carried) -> BranchJob:
        """That of a job which arrives from another queue, where nobody holds it any more."""
        job = carried.job
        waits, held = job.state is State.PENDING, job.state is State.CLAIMED
        return cls(
            run=job.run,
            kind=job.kind,
            key=job.key,
            payload=job.payload,
            priority=job.priority,
            partition=job.partition,
            host=job.host,
            parent=job.parent,
            depth=min(max(job.depth, 0), DEEPEST),
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            not_before=job.not_before if waits else None,
            submitted_at=job.submitted_at,
            settled_at=job.settled_at,
            worker=None if held else job.worker,
            seconds=job.seconds,
            result=job.result,
            failure=job.failure,
            history=list(carried.history),
        )

    def job(self, place: JobPath, holder: str | None = None) -> Job:
        """The job that stands at this place."""
        return Job(
            id=str(place.number),
            run=self.run,
            kind=self.kind,
            key=self.key,
            payload=self.payload,
            priority=self.priority,
            partition=self.partition,
            host=self.host,
            parent=self.parent,
            depth=self.depth,
            state=place.state,
            epoch=place.epoch,
            attempts=self.attempts,
            max_attempts=self.max_attempts,
            not_before=None if place.state is State.CLAIMED else self.not_before,
            submitted_at=self.submitted_at,
            settled_at=self.settled_at,
            worker=holder if place.state is State.CLAIMED else self.worker,
            seconds=self.seconds,
            result=self.result,
            failure=self.failure,
        )


class LaneKey(msgspec.Struct, kw_only=True):
    """A run, kind and partition, and how many of its jobs stand where."""

    run: str
    kind: str
    partition: str
    pending: int = 0
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


class HeartbeatFile(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A worker's heartbeat. Whoever watches it change knows that the worker lives; no instant is written down."""

    label: str
    incarnation: str
    lease_seconds: float
    beat: int
    about: dict[str, Any] | None = None
    """What the worker says of itself; None for one that is not on the roll."""


class StoredEntry(msgspec.Struct, kw_only=True, frozen=True):
    """A note."""

    shelf: str
    name: str
    version: str
    value: Any


class Meta(msgspec.Struct, kw_only=True):
    """The branch itself."""

    format: int = FORMAT
    next_job: int = 1
    next_lane: int = 1
    next_archive: int = 1
    next_note: int = 1
    """The version that the next note gets."""
    claims: int = 0
    """Claims that were pushed."""
    lost_races: int = 0
    """Claims that were refused because another was faster, and were made again."""
    moved_to: str = ""
    """The branch that follows this one; nothing is written here any more."""


def due_of(not_before: float | None) -> int | None:
    """The instant as it is written into a name: never before the instant itself."""
    return None if not_before is None else math.ceil(min(max(not_before, 0.0), 1e12) * 1000)


def identity(run: str, kind: str, key: str) -> str:
    """What a job is, as one short word."""
    return hashlib.sha256(msgspec.json.encode([run, kind, key])).hexdigest()[:32]


@lru_cache(1 << 14)
def host_of(host: str) -> str:
    """A host as one short word; none for jobs without one."""
    return hashlib.sha256(host.encode()).hexdigest()[:12] if host else ""


def stem_of(worker: WorkerId) -> str:
    """What a worker's file and folder are called: its label, as far as a name can say it, and what makes it unique."""
    return _stem(worker.label, worker.incarnation)


def note_path(shelf: str, name: str) -> str:
    """Where a note lies."""
    return f"{NOTES}/{_stem(shelf, shelf)}/{_stem(name, name)}.json"


def _stem(label: str, unique: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9-]+", "_", label)[:40]
    return f"{readable}~{hashlib.sha256(unique.encode()).hexdigest()[:16]}"


def written(value: msgspec.Struct) -> bytes:
    """A file's content: JSON that a person can read on a web page."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def decoded(content: bytes, kind: type[T]) -> T:
    """What a file says. Raises `msgspec.DecodeError` where it is none of ours, however strange."""
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is no text: {error}") from error


def meta_of(content: bytes) -> Meta:
    """What `longshore.json` says. Raises `ForeignQueueError` and `NewerSchemaError`."""
    try:
        meta = decoded(content, Meta)
    except msgspec.DecodeError as error:
        raise ForeignQueueError(
            f"The branch has no valid {META}, so it is no queue of Longshore ({error}). "
            "Name another repository; this one was left as it is."
        ) from error
    if meta.format > FORMAT:
        raise NewerSchemaError(
            f"The queue is of format {meta.format}, and this Longshore knows up to {FORMAT}. Upgrade Longshore here."
        )
    return meta
