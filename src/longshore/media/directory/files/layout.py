"""Names: where a job's file lies and what its name tells. Nothing a user chose becomes a path as it is.

    pending/LANE/PRIORITY/SHARD/HOST/SEGMENT/FILE     ready to be claimed
    pending/LANE/later/MINUTE/FILE                    delayed, by the minute in which it is due
    processing/WORKER/LANE/FILE                       claimed
    completed/LANE/SEGMENT/FILE                       finished; likewise failed/ and cancelled/
    notes/SHELF/NAME/CHANGE.json                      a note

    FILE = NUMBER.pPRIORITY.eEPOCH.aATTEMPTS[.tMICROSECONDS][.hHOST][.CHANGE].json

A lane is one run, kind and partition. The number is the job's place in the order of submission, and a segment holds a
thousand numbers. `t` is the instant a delayed job is due, or a cancelled one was cancelled. `h` is the host, and a job
without one lies under `_`; a shard is one of 256 groups of hosts, so that a few of very many are found without listing
all. CHANGE is the id of the change that put the file there; a file in processing/ needs none, for its epoch occurs
once. So no path is ever used twice, and whoever acts on a path acts on exactly one version of one job.
"""

from __future__ import annotations

import hashlib
import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec

from longshore.job import State

SEGMENT = 1000
"""Numbers in one folder: listing it costs a fraction of a millisecond, whatever the backlog."""
MINUTE_US = 60_000_000
LATEST_US = 10**18
"""The latest instant that a name tells: some 30,000 years from now."""
LATER = "later"
NO_HOST = "_"
"""The folder, and the shard, of jobs without a host."""

_FILE = re.compile(
    r"(?P<number>\d{12,18})\.p(?P<priority>-?\d{1,20})\.e(?P<epoch>\d{1,18})\.a(?P<attempts>\d{1,18})"
    r"(?:\.t(?P<instant>\d{1,20}))?(?:\.h(?P<host>[A-Za-z0-9_-]+~[0-9a-f]{12}))?(?:\.(?P<change>[0-9a-f]{12}))?\.json"
)

_HOST = re.compile(r"[A-Za-z0-9_-]+~[0-9a-f]{12}")
_SHARDS = frozenset({NO_HOST, *(f"{number:02x}" for number in range(256))})


class Slot(IntEnum):
    """Where a job can be, and which of its lane's counters counts it."""

    READY = 0
    DELAYED = 1
    CLAIMED = 2
    COMPLETED = 3
    FAILED = 4
    CANCELLED = 5


STATES = {
    Slot.READY: State.PENDING,
    Slot.DELAYED: State.PENDING,
    Slot.CLAIMED: State.CLAIMED,
    Slot.COMPLETED: State.COMPLETED,
    Slot.FAILED: State.FAILED,
    Slot.CANCELLED: State.CANCELLED,
}
FINISHED = {Slot.COMPLETED: "completed", Slot.FAILED: "failed", Slot.CANCELLED: "cancelled"}
_FOLDERS = {name: slot for slot, name in FINISHED.items()}


class JobFileName(NamedTuple):
    """What a file's name tells of its job."""

    number: int
    priority: int
    epoch: int
    attempts: int
    instant: int | None = None
    host: str = ""
    """As `host_of` says it."""
    change: str = ""

    def __str__(self) -> str:
        instant = "" if self.instant is None else f".t{self.instant}"
        host = f".h{self.host}" if self.host else ""
        change = f".{self.change}" if self.change else ""
        return f"{self.number:012d}.p{self.priority}.e{self.epoch}.a{self.attempts}{instant}{host}{change}.json"

    @property
    def segment(self) -> str:
        return segment_of(self.number)


class JobPlace(NamedTuple):
    """A path of a job's file, taken apart."""

    slot: Slot
    lane: str
    file: JobFileName
    worker: str = ""


def file_of(name: str) -> JobFileName | None:
    """The meaning of a file's name; None if it is not one of ours."""
    found = _FILE.fullmatch(name)
    if found is None:
        return None
    number, priority, epoch, attempts, instant, host, change = found.groups()
    due = None if instant is None else int(instant)
    file = JobFileName(int(number), int(priority), int(epoch), int(attempts), due, host or "", change or "")
    return file if str(file) == name else None


def place_of(path: str) -> JobPlace | None:
    """The meaning of a path; None if no job's file lies there."""
    parts = path.split("/")
    file = file_of(parts[-1])
    if file is None:
        return None
    match parts[:-1]:
        case ["pending", lane, "later", _]:
            return JobPlace(Slot.DELAYED, lane, file)
        case ["pending", lane, _, _, _, _]:
            return JobPlace(Slot.READY, lane, file)
        case ["processing", worker, lane]:
            return JobPlace(Slot.CLAIMED, lane, file, worker)
        case [folder, lane, _] if folder in _FOLDERS:
            return JobPlace(_FOLDERS[folder], lane, file)
    return None


def pending(lane: str, file: JobFileName) -> str:
    """Where a pending job lies: among the ready, or, if its name tells an instant, among the delayed."""
    if file.instant is None:
        return f"{line(lane, file.priority, file.host)}/{file.segment}/{file}"
    return f"pending/{lane}/{LATER}/{minute_of(file.instant)}/{file}"


def line(lane: str, priority: int, host: str) -> str:
    """The folder of the ready jobs of one lane, priority and host."""
    return f"pending/{lane}/{priority}/{shard_of(host)}/{host or NO_HOST}"


def processing(worker: str, lane: str, file: JobFileName) -> str:
    """Where a claimed job lies. Its name tells no instant and no change."""
    return f"processing/{worker}/{lane}/{file}"


def finished(slot: Slot, lane: str, file: JobFileName) -> str:
    """Where a finished job lies."""
    return f"{FINISHED[slot]}/{lane}/{file.segment}/{file}"


def microseconds(instant: float) -> int:
    """An instant as a file's name tells it; one that no name has room for, or before 1970, as near as can be."""
    return min(max(round(min(instant, 1e13) * 1e6), 0), LATEST_US)


def segment_of(number: int) -> str:
    return f"{number // SEGMENT:09d}"


def minute_of(instant: int) -> str:
    return f"{instant // MINUTE_US:012d}"


def lane_of(run: str, kind: str, partition: str) -> str:
    """The folder of a lane: its names as far as a file name can tell them, and a hash that tells them apart."""
    words = "~".join(_readable(text, 24) for text in (run, kind, partition))
    return f"{words}~{_hash([run, kind, partition], 6)}"


def is_lane(name: str) -> bool:
    """Whether a folder is called as that of a lane."""
    return re.fullmatch(r"[\w~-]+~[0-9a-f]{12}", name, re.ASCII) is not None


@lru_cache(1 << 14)
def host_of(host: str) -> str:
    """A host as paths tell it, readable and with a hash; nothing for jobs without one."""
    return f"{_readable(host, 32)}~{_hash([host], 6)}" if host else ""


def is_host(name: str) -> bool:
    """Whether a folder is called as that of a host's jobs."""
    return name == NO_HOST or _HOST.fullmatch(name) is not None


def short(host: str) -> str:
    """A host, as paths tell it, by its hash alone: so a key's note fits where a name does and takes no block."""
    return host[-12:] or NO_HOST


def shard_of(host: str) -> str:
    """The group of a host, as paths tell it."""
    return host[-12:-10] or NO_HOST


def is_shard(name: str) -> bool:
    """Whether a folder is called as that of a group of hosts."""
    return name in _SHARDS


def shelf_of(shelf: str) -> str:
    """The folder of a shelf of notes."""
    return f"notes/{_readable(shelf, 48)}~{_hash([shelf], 6)}"


def note_of(shelf: str, name: str) -> str:
    """The folder of a note."""
    return f"{shelf_of(shelf)}/{_readable(name, 48)}~{_hash([name], 6)}"


def worker_of(label: str, incarnation: str) -> str:
    """The folder of a worker."""
    return f"{_readable(label, 48)}~{_hash([label, incarnation], 6)}"


def key_of(run: str, kind: str, key: str) -> str:
    """Where a key is noted."""
    digest = _hash([run, kind, key], 20)
    return f"keys/{digest[:2]}/{digest[2:]}"


def _readable(text: str, length: int) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text[: 4 * length]).strip("-")[:length] or "_"


def _hash(texts: list[str], size: int) -> str:
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=size).hexdigest()
