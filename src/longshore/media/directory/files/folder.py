"""Recognises the folder of a queue, and creates a queue in an empty folder."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec

from longshore.errors import ForeignQueueError, NewerSchemaError, QueueError
from longshore.media.directory.files import disk, listing
from longshore.media.directory.files.job_file import DamagedError, read
from longshore.media.directory.files.layout import FINISHED, Slot, lane_of, place_of
from longshore.media.directory.journal.entry import JournalHead, LaneCounts, new_id
from longshore.media.directory.journal.generations import create
from longshore.media.directory.journal.journal import Journal

FORMAT = 2
"""Format 2: paths contain the host of a job. See `upgrade` for format 1."""
MARK = "longshore.json"
UUID = "uuid.txt"
_UUID = re.compile(r"[0-9a-f]{32}")
FOLDERS = (
    "pending",
    "processing",
    *FINISHED.values(),
    "rejected",
    "workers",
    "roll",
    "notes",
    "keys",
    "staging",
    "trash",
    "boots",
)

README = b"""This folder is a queue of Longshore. One JSON file is one job:

  pending/     waiting jobs, by run, kind and partition, then by priority, host and number
  processing/  claimed jobs, by worker
  completed/  failed/  cancelled/
  notes/       the shared state of the workers, one file per entry
  rejected/    foreign or damaged files, each with the reason beside it
  uuid.txt     the name of this queue among all queues: records and pages of its jobs are found by it

You may read and copy everything. To change something use `longshore` (submit, retry, cancel, prune):
files that are edited or moved by hand end up in rejected/.
"""


def is_queue(path: Path) -> bool:
    """Return whether the folder is a queue. Creates nothing.

    Raises `ForeignQueueError` if the folder holds something else; an empty or missing folder is not an error.
    """
    root = str(path)
    if os.path.lexists(f"{root}/{MARK}"):
        return True
    try:
        there = os.listdir(root)  # noqa: PTH208 - strings, as in `disk`
    except FileNotFoundError:
        return False
    _refuse_foreign(root, there)
    return False


def prepare(path: Path) -> int:
    """Return the format of the queue in the folder; creates the queue if the folder is empty or missing.

    Raises `QueueError` if the folder is not a queue of a known format and cannot become one.
    """
    root = str(path)
    disk.make_folder(root)
    if not os.path.lexists(f"{root}/{MARK}"):
        _refuse_foreign(root, disk.names(root))
        uuid_of(root)
        write_marker(root)
    known = _format(root)
    if not _has_journal(root):
        if known < FORMAT:
            raise QueueError(
                f"The queue '{root}' has format {known} and cannot be upgraded, because its journal is gone. "
                "Open it once with the Longshore that wrote it, which rebuilds the journal, and then with this one."
            )
        for folder in (*FOLDERS, "journal"):
            disk.make_folder(f"{root}/{folder}")
        disk.sync_folder(root)
        create(root, _rebuilt(root))
    return known


def _has_journal(root: str) -> bool:
    """Return whether there is a journal. Only a fresh listing proves that there is none."""
    folder = f"{root}/journal"
    return any(map(str.isdigit, disk.names(folder))) or any(map(str.isdigit, disk.fresh_names(folder)))


def _refuse_foreign(root: str, there: list[str]) -> None:
    foreign = [name for name in there if name not in {*FOLDERS, "journal", "README.txt", MARK, UUID}]
    foreign = [name for name in foreign if not name.startswith((f"{MARK}.", "README.txt.", f"{UUID}."))]
    if foreign and not os.path.lexists(f"{root}/{MARK}"):
        raise ForeignQueueError(
            f"'{root}' holds something else ('{foreign[0]}'), so it is no queue. Name an empty or a new folder; "
            "nothing in this one was changed."
        )


def write_marker(root: str) -> None:
    """Write the README and the marker file that makes the folder a queue of the current format."""
    # README first: the marker says that everything is in place.
    for name, content in (
        ("README.txt", README),
        (MARK, msgspec.json.encode({"longshore": "queue", "format": FORMAT})),
    ):
        own = f"{root}/{name}.{new_id()}"
        disk.write(own, content)
        disk.move(own, f"{root}/{name}")
    disk.sync_folder(root)


def uuid_of(root: str) -> str:
    """Return the uuid of the queue; gives it one if it has none, which is a new queue or one of an earlier version.

    Of several processes that do so at once, one succeeds, and all return its uuid. Returns "" if there is none and the
    folder cannot be written to.
    """
    while True:
        with suppress(FileNotFoundError):
            found = disk.read(f"{root}/{UUID}").decode("ascii", "replace").strip()
            if _UUID.fullmatch(found):
                return found
            raise QueueError(
                f"'{root}/{UUID}' is not as Longshore wrote it. Restore it from a backup: the records of the queue's "
                "jobs are found by it. If there is none, remove the file, and the queue gets a new uuid."
            )
        own = f"{root}/{UUID}.{new_id()}"
        try:
            disk.write(own, f"{uuid4().hex}\n".encode())
            # A link fails if the file exists, so the first uuid stays.
            with suppress(FileExistsError):
                os.link(own, f"{root}/{UUID}")
            disk.remove(own)
            disk.sync_folder(root)
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
                return ""
            raise


def _format(root: str) -> int:
    try:
        mark = msgspec.json.decode(disk.read(f"{root}/{MARK}"))
        known = isinstance(mark, dict) and mark["longshore"] == "queue" and isinstance(mark["format"], int)
    except (msgspec.DecodeError, KeyError):
        known = False
    if not known:
        raise ForeignQueueError(
            f"'{root}' is no queue: its {MARK} is not one that Longshore wrote. Name another folder; nothing in this "
            "one was changed."
        )
    if mark["format"] > FORMAT:
        raise NewerSchemaError(
            f"The queue '{root}' was made by a newer Longshore (its format is {mark['format']}, this one knows "
            f"{FORMAT}). Upgrade Longshore here, or name another folder."
        )
    return int(mark["format"])


def _rebuilt(root: str) -> JournalHead:
    """Return the head of a queue without a journal, counted from its job files; an empty head for a new queue."""
    journal = Journal(root)
    tops = ["pending", *FINISHED.values(), *(f"processing/{name}" for name in disk.names(f"{root}/processing"))]
    folders = {name for top in tops for name in disk.names(f"{root}/{top}")}
    head = JournalHead(freed_keys=bool(folders))
    for folder in sorted(folders):
        for portion in listing.by_segment(journal, [folder], list(Slot), 0, None):
            for number, path in portion.items():
                head.numbers = max(head.numbers, number + 1)
                if folder not in head.lanes and (lane := _lane(journal, folder, path)) is not None:
                    head.lanes[folder] = lane
        if folder in head.lanes:
            head.lanes[folder].counts = [listing.count(journal, folder, slot) for slot in Slot]
    return head


def _lane(journal: Journal, folder: str, path: str) -> LaneCounts | None:
    try:
        record = read(journal.root, path)
    except DamagedError:
        return None
    if record is None or place_of(path) is None or lane_of(record.run, record.kind, record.partition) != folder:
        return None
    return LaneCounts(run=record.run, kind=record.kind, partition=record.partition, counts=[0] * len(Slot))
