"""The files of the branch: their names and contents.

    longshore.json                                        the format, and the next numbers to assign
    uuid.txt                                              the name of this queue among all queues
    lanes/12.json                                         a run, kind and partition, and its jobs per state
    workers/anna~0f3c….json                               a worker's heartbeat
    available_work/00000/01/shop~000000123-12-9f86….json  a job that waits for its first attempt
    retry_queue/…                                         a job that waits for another attempt, with its failure
    active_work/anna~0f3c…/shop~000000123-12-9f86….json   a job that a worker holds
    completed_work/…   failed_work/…   cancelled_work/…   finished jobs
    rejected_work/…                                       files that are none of its jobs, with the reasons
    notes/schedules~41d0…/nightly~7c3e….json              an entry of the shared state, in its namespace
    archive/2026-11/000004-5000.jsonl.gz                  completed jobs, packed; the name contains their number

A job's file name begins with its label, which is for people and decides nothing. After it comes all that a claim needs
to choose the job without reading it: its number (its age), its lane, its identity (a hash of run, kind and key), and if
they are not the default its host (.h, a hash), its priority (.p), the millisecond before which it must not be claimed
(.t) and its epoch (.e). State, epoch and holder are only in the path, so a claim moves a file and rewrites none. Format
1 had no hosts in names, and format 2 no labels; see `upgrade`.
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
from longshore.job import DEFAULT_MAX_ATTEMPTS, Attempt, CameFrom, Job, JobName, NewJob, State
from longshore.lease import WorkerId

T = TypeVar("T")

FORMAT = 3
META = "longshore.json"
README = "README.md"
UUID = "uuid.txt"
"""A file of its own: earlier versions rewrite `longshore.json`, and leave out what they do not know."""
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
MAX_DEPTH = 1_000_000_000
"""The greatest depth of a job. No run reaches it; a file with a greater depth was not written by Longshore."""
FINISHED_FOLDERS = {State.COMPLETED: "completed_work", State.FAILED: "failed_work", State.CANCELLED: "cancelled_work"}
_UUID = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(
    r"(?:(?P<label>[A-Za-z0-9._-]{1,60})~)?(?P<number>\d{9,15})-(?P<lane>\d{1,9})-(?P<identity>[0-9a-f]{32})"
    r"(?:\.h(?P<host>[0-9a-f]{12}))?(?:\.p(?P<priority>-?\d{1,19}))?(?:\.t(?P<due>\d{1,16}))?(?:\.e(?P<epoch>\d{1,15}))?\.json"
)
_SHARDED = re.compile(r"(?P<folder>\w+)/\d{5,}/\d\d/(?P<name>[^/]+)")
_HELD = re.compile(rf"(?P<folder>{ACTIVE})/(?P<holder>[\w~-]+)/(?P<name>[^/]+)")


class JobPath(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the path of a job's file."""

    number: int
    lane: int
    identity: str
    label: str = ""
    """As `job_label.label_of` returns it; "" if an earlier version named the file, or if the job is archived."""
    host: str = ""
    """As returned by `host_of`."""
    priority: int = 0
    due: int | None = None
    """The millisecond before which it must not be claimed."""
    epoch: int = 0
    folder: str = AVAILABLE
    holder: str = ""
    """The stem of the holder's heartbeat file; "" if no worker holds the job."""
    oid: str = ""
    """The blob."""

    @property
    def state(self) -> State:
        return State.COMPLETED if self.is_archived else FOLDERS[self.folder]

    @property
    def is_archived(self) -> bool:
        """Whether the job is a line in a file of the archive; `folder` is then the path of that file."""
        return self.folder.startswith(f"{ARCHIVE}/")

    @property
    def path(self) -> str:
        name = f"{self.label}~" if self.label else ""
        name += f"{self.number:09d}-{self.lane}-{self.identity}"
        name += f".h{self.host}" if self.host else ""
        name += f".p{self.priority}" if self.priority else ""
        name += f".t{self.due}" if self.due is not None else ""
        name += f".e{self.epoch}" if self.epoch else ""
        return f"{self.folder}/{self.holder or shard(self.number)}/{name}.json"


def shard(number: int) -> str:
    """Return the subfolders of a job. No folder has more than a hundred entries until there are a million jobs."""
    return f"{number // 10_000:05d}/{number // 100 % 100:02d}"


def place_of(path: str, oid: str) -> JobPath | None:
    """Return the parts of a path; None if it is not the path of a job's file."""
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
        label=name["label"] or "",
        host=name["host"] or "",
        priority=int(name["priority"] or 0),
        due=int(name["due"]) if name["due"] else None,
        epoch=int(name["epoch"] or 0),
        folder=found["folder"],
        holder=found["holder"] if held else "",
        oid=oid,
    )
    # Accept the canonical spelling only, or a second file could have the name of the same job. Numbers begin at one.
    return place if place.path == path and place.number else None


class BranchJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The content of a job's file."""

    run: str
    kind: str
    key: str
    payload: dict[str, Any]
    priority: int = 0
    partition: str = ""
    host: str = ""
    parent: JobName | None = None
    depth: Annotated[int, msgspec.Meta(ge=0, le=MAX_DEPTH)] = 0
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
    came_from: tuple[CameFrom, ...] = ()
    handler_version: str = ""

    @classmethod
    def of(cls, job: NewJob, now: float) -> BranchJob:
        """Return the content of a new job."""
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

    def with_parent(self, parent: BranchJob, now: float) -> BranchJob:
        """Return the content of this follow-on job, with its parent, depth and run."""
        return msgspec.structs.replace(
            self,
            run=parent.run,
            parent=JobName(parent.kind, parent.key),
            depth=min(parent.depth + 1, MAX_DEPTH),
            submitted_at=now,
        )

    @classmethod
    def carried(cls, carried: Carried) -> BranchJob:
        """Return the content of a job from another queue; it has no holder here."""
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
            depth=min(max(job.depth, 0), MAX_DEPTH),
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
            came_from=carried.came_from,
            handler_version=job.handler_version,
        )

    def job(self, place: JobPath, queue: str, holder: str | None = None) -> Job:
        """Return the job at this place; `queue` is the uuid of the queue, `holder` the label of the job's worker."""
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
            queue=queue,
            came_from=self.came_from,
            handler_version=self.handler_version,
        )


class LaneKey(msgspec.Struct, kw_only=True):
    """A run, kind and partition, and the number of its jobs in each state."""

    run: str
    kind: str
    partition: str
    pending: int = 0
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


class HeartbeatFile(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A worker's heartbeat. A change of `beat` shows that the worker is alive."""

    label: str
    incarnation: str
    lease_seconds: float
    beat: int
    at: float = 0.0
    """When it was written, by the worker's clock: to be shown to people, never to judge a lease."""
    about: dict[str, Any] | None = None
    """The worker's info; None if it is not registered."""


class StoredEntry(msgspec.Struct, kw_only=True, frozen=True):
    """An entry of the shared state."""

    namespace: str = msgspec.field(name="shelf")
    name: str
    version: str
    value: Any


class Meta(msgspec.Struct, kw_only=True):
    """The content of `longshore.json`."""

    format: int = FORMAT
    next_job: int = 1
    next_lane: int = 1
    next_archive: int = 1
    next_note: int = 1
    """The version of the next entry of the shared state."""
    claims: int = 0
    """Claims that were pushed."""
    lost_races: int = 0
    """Claims that were refused because another push came first, and were made again."""
    moved_to: str = ""
    """The branch that follows this one; if it is set, nothing more is written to this branch."""


def uuid_in(content: bytes) -> str:
    """Return the uuid in the content of `uuid.txt`. Raises `ForeignQueueError` if there is none."""
    found = content.decode("ascii", "replace").strip()
    if not _UUID.fullmatch(found):
        raise ForeignQueueError(
            f"{UUID} of the branch is not as Longshore wrote it. Restore it from the history: the records of the "
            "queue's jobs are found by it."
        )
    return found


def due_of(not_before: float | None) -> int | None:
    """Return an instant as file names contain it: rounded up to a millisecond."""
    return None if not_before is None else math.ceil(min(max(not_before, 0.0), 1e12) * 1000)


def identity(run: str, kind: str, key: str) -> str:
    """Return a short hash that identifies a job."""
    return hashlib.sha256(msgspec.json.encode([run, kind, key])).hexdigest()[:32]


@lru_cache(1 << 14)
def host_of(host: str) -> str:
    """Return a short hash of a host; "" for no host."""
    return hashlib.sha256(host.encode()).hexdigest()[:12] if host else ""


def stem_of(worker: WorkerId) -> str:
    """Return the stem of a worker's file and folder: its label in safe characters, and a hash that makes it unique."""
    return _stem(worker.label, worker.incarnation)


def entry_path(namespace: str, name: str) -> str:
    """Return the path of an entry of the shared state."""
    return f"{NOTES}/{_stem(namespace, namespace)}/{_stem(name, name)}.json"


def _stem(label: str, unique: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9-]+", "_", label)[:40]
    return f"{readable}~{hashlib.sha256(unique.encode()).hexdigest()[:16]}"


def written(value: msgspec.Struct) -> bytes:
    """Return a file's content: indented JSON, readable on a web page."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def decoded(content: bytes, kind: type[T]) -> T:
    """Return the value in a file. Raises `msgspec.DecodeError` for every invalid content."""
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not valid UTF-8: {error}") from error


def meta_of(content: bytes) -> Meta:
    """Return the value of `longshore.json`. Raises `ForeignQueueError` and `NewerSchemaError`."""
    try:
        meta = decoded(content, Meta)
    except msgspec.DecodeError as error:
        raise ForeignQueueError(
            f"The branch has no valid {META}, so it is no queue of Longshore ({error}). "
            "Name another repository; nothing in this one was changed."
        ) from error
    if meta.format > FORMAT:
        raise NewerSchemaError(
            f"The queue has format {meta.format}, and this Longshore knows up to {FORMAT}. Upgrade Longshore here."
        )
    return meta
