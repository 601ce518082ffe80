"""Whose folder it is, and how a queue is made in one that is empty."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from longshore.errors import ForeignQueueError, NewerSchemaError, QueueError
from longshore.media.directory.files import disk, listing
from longshore.media.directory.files.job_file import DamagedError, read
from longshore.media.directory.files.layout import FINISHED, Slot, lane_of, place_of
from longshore.media.directory.journal import journal
from longshore.media.directory.journal.entry import JournalHead, LaneCounts, new_id

FORMAT = 2
"""2: paths tell the host of a job. See `upgrade` for what was before."""
MARK = "longshore.json"
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

  pending/     waits, by run, kind and partition, then by priority, host and number
  processing/  is being worked on, by worker
  completed/  failed/  cancelled/
  notes/       what all who share the queue know, one file a note
  rejected/    files that did not belong or were damaged, each with the reason beside it

Look and copy as you like. To change something use `longshore` (submit, retry, cancel, prune):
what is edited or moved by hand is set aside in rejected/.
"""


def is_queue(path: Path) -> bool:
    """Whether there is a queue in the folder; an empty or missing one may become one. Makes nothing.

    Raises `ForeignQueueError` for a folder that holds something else.
    """
    root = str(path)
    if os.path.lexists(f"{root}/{MARK}"):
        return True
    try:
        there = os.listdir(root)  # noqa: PTH208 - as everywhere here
    except FileNotFoundError:
        return False
    _refuse_strangers(root, there)
    return False


def prepare(path: Path) -> int:
    """Make sure that the folder is a queue of a format we know, and say which; an empty or missing one becomes a queue.

    Raises `QueueError` where it cannot be one.
    """
    root = str(path)
    disk.make_folder(root)
    if not os.path.lexists(f"{root}/{MARK}"):
        _refuse_strangers(root, disk.names(root))
        set_mark(root)
    known = _format(root)
    if not any(name.isdigit() for name in disk.names(f"{root}/journal")):
        if known < FORMAT:
            raise QueueError(
                f"The queue '{root}' is of format {known}, which is brought over when it is opened, but its journal is "
                f"gone. Open it once with the Longshore that wrote it, which counts it anew, and then with this one."
            )
        for folder in (*FOLDERS, "journal"):
            disk.make_folder(f"{root}/{folder}")
        disk.sync_folder(root)
        journal.begin(root, _rebuilt(root))
    return known


def _refuse_strangers(root: str, there: list[str]) -> None:
    strangers = [name for name in there if name not in {*FOLDERS, "journal", "README.txt", MARK}]
    strangers = [name for name in strangers if not name.startswith((f"{MARK}.", "README.txt."))]
    if strangers and not os.path.lexists(f"{root}/{MARK}"):
        raise ForeignQueueError(
            f"'{root}' holds something else ('{strangers[0]}'), so it is no queue. Name an empty or a new folder; this "
            "one was left as it is."
        )


def set_mark(root: str) -> None:
    """Write into the folder what it is."""
    # README first: the mark says that all is there.
    for name, content in (
        ("README.txt", README),
        (MARK, msgspec.json.encode({"longshore": "queue", "format": FORMAT})),
    ):
        own = f"{root}/{name}.{new_id()}"
        disk.write(own, content)
        disk.move(own, f"{root}/{name}")
    disk.sync_folder(root)


def _format(root: str) -> int:
    try:
        mark = msgspec.json.decode(disk.read(f"{root}/{MARK}"))
        known = isinstance(mark, dict) and mark["longshore"] == "queue" and isinstance(mark["format"], int)
    except (msgspec.DecodeError, KeyError):
        known = False
    if not known:
        raise ForeignQueueError(
            f"'{root}' is no queue: its {MARK} does not say so. Name another folder; this one was left as it is."
        )
    if mark["format"] > FORMAT:
        raise NewerSchemaError(
            f"The queue '{root}' was made by a newer Longshore (its format is {mark['format']}, this one knows "
            f"{FORMAT}). Upgrade Longshore here, or name another folder."
        )
    return int(mark["format"])


def _rebuilt(root: str) -> JournalHead:
    """The state of a queue whose journal is lost, counted anew from the jobs that are there; of a new one, nothing."""
    book = journal.Journal(root)
    tops = ["pending", *FINISHED.values(), *(f"processing/{name}" for name in disk.names(f"{root}/processing"))]
    folders = {name for top in tops for name in disk.names(f"{root}/{top}")}
    head = JournalHead(freed_keys=bool(folders))
    for folder in sorted(folders):
        for portion in listing.by_segment(book, [folder], list(Slot), 0, None):
            for number, path in portion.items():
                head.numbers = max(head.numbers, number + 1)
                if folder not in head.lanes and (lane := _lane(book, folder, path)) is not None:
                    head.lanes[folder] = lane
        if folder in head.lanes:
            head.lanes[folder].counts = listing.counts(book, folder)
    return head


def _lane(book: journal.Journal, folder: str, path: str) -> LaneCounts | None:
    try:
        record = read(book.root, path)
    except DamagedError:
        return None
    if record is None or place_of(path) is None or lane_of(record.run, record.kind, record.partition) != folder:
        return None
    return LaneCounts(run=record.run, kind=record.kind, partition=record.partition, counts=[0] * len(Slot))
