"""Listings of the queue's folders. Foreign files that a listing finds are moved to rejected/."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import (
    FINISHED,
    LATER,
    NO_HOST,
    JobFileName,
    Slot,
    file_of,
    host_folder,
    host_hash,
    is_host,
    is_lane,
    is_shard,
    segment_of,
    shard_of,
)
from longshore.media.directory.files.quarantine import NO_NAME, NOT_OURS, move_to_rejected
from longshore.media.directory.journal.journal import Journal

CLEARED_AT_ONCE = 250
"""Empty folders that one call of `remove_emptied` removes at most."""


def listed(journal: Journal, folder: str) -> list[str]:
    """Return the names in a folder of the queue. On a network volume they may be outdated; see `fresh`."""
    return (disk.fresh_names if journal.lists_fresh else disk.names)(journal.path(folder))


@contextmanager
def fresh(journal: Journal) -> Iterator[None]:
    """Make every listing in the block prove that it is not outdated. It raises `StaleListingError` if it cannot.

    For decisions that a missing name would make wrong for good. Each folder costs two more system calls that write.
    """
    before, journal.lists_fresh = journal.lists_fresh, True
    try:
        yield
    finally:
        journal.lists_fresh = before


def priorities(journal: Journal, lane: str) -> list[int]:
    """Return the priorities with ready jobs in a lane, most urgent first; some may have become empty."""
    found = []
    for name in listed(journal, f"pending/{lane}"):
        if name.lstrip("-").isdecimal() and _is_folder(journal, f"pending/{lane}/{name}"):
            found.append(int(name))
        elif name != LATER and not _is_hidden(name):
            move_to_rejected(journal.root, f"pending/{lane}/{name}", NOT_OURS)
    return sorted(found)


def shards(journal: Journal, lane: str, priority: int) -> list[str]:
    """Return the shards with ready jobs of a lane and priority, unordered; some may have become empty."""
    folder = f"pending/{lane}/{priority}"
    names = listed(journal, folder)
    found = [name for name in names if is_shard(name)]
    if len(found) < len(names):
        found = [name for name in _matching(journal, folder, _is_shard) if is_shard(name)]
    if not found:
        disk.remove_if_empty(journal.path(folder))
    return found


def hosts(journal: Journal, lane: str, priority: int, shard: str) -> list[str]:
    """Return the hosts of a shard with ready jobs of a lane and priority, unordered; some may have become empty."""
    folder = f"pending/{lane}/{priority}/{shard}"
    # There may be very many hosts: a name of the right form is accepted without a system call to check it.
    found = _matching(journal, folder, lambda name: (name[-12:-10] == shard and is_host(name)) or name == shard)
    if not found:
        disk.remove_if_empty(journal.path(folder))
    return [_host_of(name) for name in found]


def ready(journal: Journal, lane: str, priority: int, host: str) -> Iterator[tuple[int, str, str]]:
    """Yield number, lane and path of the ready jobs of a lane, priority and host, oldest first. Lists lazily."""
    folder = host_folder(lane, priority, host)
    segments = _segments(journal, folder)
    if not segments:
        disk.remove_if_empty(journal.path(folder))
    for segment in segments:
        inside = f"{folder}/{segment}"
        # Numbers are zero-padded, so names sort like numbers.
        files = sorted(_names(journal, inside))
        for name in files:
            yield int(name.partition(".")[0]), lane, f"{inside}/{name}"
        if not files:
            journal.emptied.add(inside)


def remove_emptied(journal: Journal) -> None:
    """Remove empty folders of hosts and segments, at most `CLEARED_AT_ONCE` of them.

    A claim does not remove the folders that it empties: while the disk syncs for other processes, each removal takes
    milliseconds, and one claim may empty a hundred folders.
    """
    for _ in range(min(len(journal.emptied), CLEARED_AT_ONCE)):
        segment = journal.emptied.pop()
        disk.remove_if_empty(journal.path(segment))
        disk.remove_if_empty(journal.path(segment.rpartition("/")[0]))


def ready_of_host(journal: Journal, lane: str, host: str, segment: str) -> Iterator[int]:
    """Yield the numbers of a host's ready jobs in one segment, of all priorities; `host` is a `layout.host_hash`."""
    for priority in priorities(journal, lane):
        for name in hosts(journal, lane, priority, shard_of(host)):
            if host_hash(name) == host:
                yield from (
                    file.number for file, _ in _files(journal, f"{host_folder(lane, priority, name)}/{segment}")
                )


def priority_hosts(journal: Journal, lane: str) -> Iterator[tuple[int, str]]:
    """Yield each priority and host with ready jobs in a lane. Lists the name of every host."""
    for priority in priorities(journal, lane):
        for shard in shards(journal, lane, priority):
            for host in hosts(journal, lane, priority, shard):
                yield priority, host


def delayed(journal: Journal, lane: str) -> Iterator[tuple[JobFileName, str]]:
    """Yield the delayed jobs of a lane, minute by minute."""
    folder = f"pending/{lane}/{LATER}"
    for minute in _segments(journal, folder):
        files = list(_files(journal, f"{folder}/{minute}"))
        yield from files
        if not files:
            disk.remove_if_empty(journal.path(f"{folder}/{minute}"))


def workers(journal: Journal) -> list[str]:
    """Return the folders of workers that hold jobs; some may have become empty."""
    return [name for name in listed(journal, "processing") if _is_folder(journal, f"processing/{name}")]


def claimed(journal: Journal, worker: str) -> Iterator[tuple[str, JobFileName, str]]:
    """Yield lane, file name and path of each job that a worker holds."""
    for lane in listed(journal, f"processing/{worker}"):
        if not _is_folder(journal, f"processing/{worker}/{lane}"):
            continue
        files = list(_files(journal, f"processing/{worker}/{lane}"))
        for file, path in files:
            yield lane, file, path
        if not files:
            disk.remove_if_empty(journal.path(f"processing/{worker}/{lane}"))


def by_segment(
    journal: Journal, lanes: Collection[str], slots: Collection[Slot], after: int, only: frozenset[int] | None
) -> Iterator[dict[int, str]]:
    """Yield the paths of the jobs in these lanes and slots, by number, one segment at a time, oldest first."""
    roots = [f"{FINISHED[slot]}/{lane}" for slot in slots if slot in FINISHED for lane in lanes]
    if Slot.READY in slots:
        roots += [
            host_folder(lane, priority, host) for lane in lanes for priority, host in priority_hosts(journal, lane)
        ]
    scattered: defaultdict[str, dict[int, str]] = defaultdict(dict)
    if Slot.DELAYED in slots:
        for lane in lanes:
            for file, path in delayed(journal, lane):
                scattered[file.segment][file.number] = path
    if Slot.CLAIMED in slots:
        for worker in workers(journal):
            for lane, file, path in claimed(journal, worker):
                if lane in lanes:
                    scattered[file.segment][file.number] = path
    rooted: defaultdict[str, list[str]] = defaultdict(list)
    for root in roots:
        for segment in _segments(journal, root):
            rooted[segment].append(root)
    wanted = None if only is None else {segment_of(number) for number in only}
    for segment in sorted(rooted.keys() | scattered.keys()):
        if segment < segment_of(after + 1) or (wanted is not None and segment not in wanted):
            continue
        found = dict(scattered.get(segment, {}))
        for root in rooted.get(segment, ()):
            found.update((file.number, path) for file, path in _files(journal, f"{root}/{segment}", only))
        yield {
            number: path
            for number, path in sorted(found.items())
            if number > after and (only is None or number in only)
        }


def count(journal: Journal, lane: str, slot: Slot) -> int:
    """Return the number of files that a lane has in a slot, which its counter should equal. Lists every name."""
    match slot:
        case Slot.READY:
            return sum(1 for _ in all_ready(journal, lane))
        case Slot.DELAYED:
            return sum(1 for _ in delayed(journal, lane))
        case Slot.CLAIMED:
            return sum(1 for worker in workers(journal) for held, _, _ in claimed(journal, worker) if held == lane)
    folder = f"{FINISHED[slot]}/{lane}"
    return sum(1 for segment in _segments(journal, folder) for _ in _files(journal, f"{folder}/{segment}"))


def all_ready(journal: Journal, lane: str) -> Iterator[str]:
    """Yield the paths of the ready jobs of a lane."""
    for priority, host in priority_hosts(journal, lane):
        for _, _, path in ready(journal, lane, priority, host):
            yield path


def tidy(journal: Journal) -> None:
    """Reject everything directly in the folders of jobs that is no lane; remove the folders of pruned lanes."""
    tops = ("pending", *FINISHED.values())
    found = [(top, name) for top in tops for name in listed(journal, top) if not _is_hidden(name)]
    # After the listing, so that a lane that was added meanwhile is known.
    lanes = journal.catch_up().lanes
    for top, name in found:
        path = f"{top}/{name}"
        if name in lanes:
            continue
        if is_lane(name) and os.path.isdir(journal.path(path)):  # noqa: PTH112
            # The lane of a pruned run. Remove only empty folders, because a new job may just be moving into it.
            disk.remove_empty_tree(journal.path(path))
        else:
            move_to_rejected(journal.root, path, NOT_OURS)


def is_old_segment(name: str) -> bool:
    """Return whether a folder name has the form of a segment of format 1, which was directly below the priority."""
    return len(name) >= 9 and name.isdecimal() and name.isascii()


def _is_shard(name: str) -> bool:
    # Leave what an older Longshore puts there while this one runs; the next open upgrades it.
    return is_shard(name) or is_old_segment(name)


def _host_of(folder: str) -> str:
    """Return the host of a host's folder, as file names contain it."""
    return "" if folder == NO_HOST else folder


def _segments(journal: Journal, folder: str) -> list[str]:
    names = listed(journal, folder)
    # Called for each of very many hosts: if all names have the right form, one listing is enough.
    if all(map(_is_segment, names)):
        return sorted(names)
    return sorted(_matching(journal, folder, _is_segment))


def _is_segment(name: str) -> bool:
    return name.isdecimal() and name.isascii()


def _matching(journal: Journal, folder: str, fits: Callable[[str], bool]) -> list[str]:
    """Return the names in a folder for which `fits` is true; move the rest to rejected/."""
    found = []
    for name in listed(journal, folder):
        if fits(name):
            found.append(name)
        elif not _is_hidden(name):
            move_to_rejected(journal.root, f"{folder}/{name}", NOT_OURS)
    return found


def _files(journal: Journal, folder: str, only: frozenset[int] | None = None) -> Iterator[tuple[JobFileName, str]]:
    for name in _names(journal, folder):
        # Often one or two of a segment's thousand names are wanted: do not parse the others.
        if only is not None and int(name.partition(".")[0]) not in only:
            continue
        file = file_of(name)
        if file is None:
            move_to_rejected(journal.root, f"{folder}/{name}", NO_NAME)
        else:
            yield file, f"{folder}/{name}"


def _names(journal: Journal, folder: str) -> list[str]:
    names = listed(journal, folder)
    found = [name for name in names if name[:12].isdecimal() and name.isascii() and name.endswith(".json")]
    if len(found) < len(names):
        for name in set(names).difference(found):
            if not _is_hidden(name):
                move_to_rejected(journal.root, f"{folder}/{name}", NO_NAME)
    return found


def _is_hidden(name: str) -> bool:
    """Return whether NFS made the file for one that was removed while open; it disappears by itself."""
    return name.startswith(".nfs")


def _is_folder(journal: Journal, path: str) -> bool:
    if os.path.isdir(journal.path(path)):  # noqa: PTH112
        return True
    if os.path.lexists(journal.path(path)) and not _is_hidden(path.rpartition("/")[2]):
        move_to_rejected(journal.root, path, NOT_OURS)
    return False
