"""Paths in the queue folder. Text that a user chose never becomes a path without sanitizing and hashing.

    pending/LANE/PRIORITY/SHARD/HOST/SEGMENT/FILE     ready to be claimed
    pending/LANE/later/MINUTE/FILE                    delayed, by the minute in which it is due
    processing/WORKER/LANE/FILE                       claimed
    completed/LANE/SEGMENT/FILE                       finished; likewise failed/ and cancelled/
    notes/NAMESPACE/NAME/CHANGE.json                  an entry of the shared state

    FILE = NUMBER.pPRIORITY.eEPOCH.aATTEMPTS[.tMICROSECONDS][.hHOST][.CHANGE].json

LANE        one run, kind and partition
NUMBER      the job's position in the order of submission
SEGMENT     a folder for a thousand numbers
`t`         the instant at which a delayed job is due, or at which a cancelled job was cancelled
`h`, HOST   the host; jobs without a host are under `_`
SHARD       one of 256 groups of hosts, so that a claim finds a few of very many hosts without listing all of them
CHANGE      the id of the change that put the file there; a file in processing/ needs none, because its epoch is unique

Hence no path is ever used twice, and an operation on a path affects exactly one version of one job.
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
"""Numbers in one folder: listing it takes a fraction of a millisecond, whatever the size of the backlog."""
MINUTE_US = 60_000_000
LATEST_US = 10**18
"""The latest instant that a file name can contain: about 30,000 years from now."""
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
    """A place where a job can be, and the index of the lane's counter for it."""

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
    """The parts of a job's file name."""

    number: int
    priority: int
    epoch: int
    attempts: int
    instant: int | None = None
    host: str = ""
    """As returned by `host_of`."""
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
    """The parts of the path of a job's file."""

    slot: Slot
    lane: str
    file: JobFileName
    worker: str = ""


def file_of(name: str) -> JobFileName | None:
    """Return the parts of a file name; None if it is not the name of a job's file."""
    found = _FILE.fullmatch(name)
    if found is None:
        return None
    number, priority, epoch, attempts, instant, host, change = found.groups()
    due = None if instant is None else int(instant)
    file = JobFileName(int(number), int(priority), int(epoch), int(attempts), due, host or "", change or "")
    return file if str(file) == name else None


def place_of(path: str) -> JobPlace | None:
    """Return the parts of a path; None if it is not the path of a job's file."""
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
    """Return the path of a pending job: a delayed one if its name contains an instant, else a ready one."""
    if file.instant is None:
        return f"{host_folder(lane, file.priority, file.host)}/{file.segment}/{file}"
    return f"pending/{lane}/{LATER}/{minute_of(file.instant)}/{file}"


def host_folder(lane: str, priority: int, host: str) -> str:
    """Return the folder of the ready jobs of one lane, priority and host."""
    return f"pending/{lane}/{priority}/{shard_of(host)}/{host or NO_HOST}"


def processing(worker: str, lane: str, file: JobFileName) -> str:
    """Return the path of a claimed job. Its name contains no instant and no change."""
    return f"processing/{worker}/{lane}/{file}"


def finished(slot: Slot, lane: str, file: JobFileName) -> str:
    """Return the path of a finished job."""
    return f"{FINISHED[slot]}/{lane}/{file.segment}/{file}"


def microseconds(instant: float) -> int:
    """Return an instant as file names contain it, limited to the range from 1970 to `LATEST_US`."""
    return min(max(round(min(instant, 1e13) * 1e6), 0), LATEST_US)


def segment_of(number: int) -> str:
    return f"{number // SEGMENT:09d}"


def minute_of(instant: int) -> str:
    return f"{instant // MINUTE_US:012d}"


def lane_of(run: str, kind: str, partition: str) -> str:
    """Return the folder of a lane: run, kind and partition, shortened to safe characters, and a hash of all three."""
    words = "~".join(_readable(text, 24) for text in (run, kind, partition))
    return f"{words}~{_hash([run, kind, partition], 6)}"


def is_lane(name: str) -> bool:
    """Return whether a folder name has the form of a lane's."""
    return re.fullmatch(r"[\w~-]+~[0-9a-f]{12}", name, re.ASCII) is not None


@lru_cache(1 << 14)
def host_of(host: str) -> str:
    """Return a host as paths contain it: its name in safe characters, and a hash; "" for no host."""
    return f"{_readable(host, 32)}~{_hash([host], 6)}" if host else ""


def is_host(name: str) -> bool:
    """Return whether a folder name has the form of a host's."""
    return name == NO_HOST or _HOST.fullmatch(name) is not None


def host_hash(host: str) -> str:
    """Return only the hash of a host (as returned by `host_of`), so that the symbolic link of a key stays short.

    A short target is stored in the inode and takes no disk block.
    """
    return host[-12:] or NO_HOST


def shard_of(host: str) -> str:
    """Return the shard of a host (as returned by `host_of`)."""
    return host[-12:-10] or NO_HOST


def is_shard(name: str) -> bool:
    """Return whether a folder name is that of a shard."""
    return name in _SHARDS


def namespace_folder(namespace: str) -> str:
    """Return the folder of a namespace of the shared state."""
    return f"notes/{_readable(namespace, 48)}~{_hash([namespace], 6)}"


def entry_folder(namespace: str, name: str) -> str:
    """Return the folder of an entry of the shared state."""
    return f"{namespace_folder(namespace)}/{_readable(name, 48)}~{_hash([name], 6)}"


def worker_of(label: str, incarnation: str) -> str:
    """Return the folder name of a worker."""
    return f"{_readable(label, 48)}~{_hash([label, incarnation], 6)}"


def key_of(run: str, kind: str, key: str) -> str:
    """Return the path of the symbolic link that records a key."""
    digest = _hash([run, kind, key], 20)
    return f"keys/{digest[:2]}/{digest[2:]}"


def _readable(text: str, length: int) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text[: 4 * length]).strip("-")[:length] or "_"


def _hash(texts: list[str], size: int) -> str:
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=size).hexdigest()
