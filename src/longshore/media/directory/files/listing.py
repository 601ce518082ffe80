"""Looking into the folders: which files are where. What is not ours on the way is set aside."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import (
    FINISHED,
    LATER,
    NO_HOST,
    JobFileName,
    Slot,
    file_of,
    is_host,
    is_lane,
    is_shard,
    line,
    segment_of,
    shard_of,
    short,
)
from longshore.media.directory.files.quarantine import NO_NAME, NOT_OURS, set_aside
from longshore.media.directory.journal.journal import Journal

CLEARED_AT_ONCE = 250
"""Empty folders that are taken away in one go."""


def priorities(journal: Journal, lane: str) -> list[int]:
    """The priorities that a lane has ready jobs of, or had, most urgent first."""
    found = []
    for name in disk.names(journal.path(f"pending/{lane}")):
        if name.lstrip("-").isdecimal() and _is_folder(journal, f"pending/{lane}/{name}"):
            found.append(int(name))
        elif name != LATER and not _is_hidden(name):
            set_aside(journal.root, f"pending/{lane}/{name}", NOT_OURS)
    return sorted(found)


def shards(journal: Journal, lane: str, priority: int) -> list[str]:
    """The groups of hosts that a lane has ready jobs of, or had, with this priority; in no order."""
    folder = f"pending/{lane}/{priority}"
    names = disk.names(journal.path(folder))
    found = [name for name in names if is_shard(name)]
    if len(found) < len(names):
        found = [name for name in _called(journal, folder, _is_shard) if is_shard(name)]
    if not found:
        disk.remove_if_empty(journal.path(folder))
    return found


def hosts(journal: Journal, lane: str, priority: int, shard: str) -> list[str]:
    """The hosts of a group that a lane has ready jobs of, or had, with this priority; in no order."""
    folder = f"pending/{lane}/{priority}/{shard}"
    # Asked for each of very many hosts: what is called as ours needs no second question.
    found = _called(journal, folder, lambda name: (name[-12:-10] == shard and is_host(name)) or name == shard)
    if not found:
        disk.remove_if_empty(journal.path(folder))
    return [_told(name) for name in found]


def ready(journal: Journal, lane: str, priority: int, host: str) -> Iterator[tuple[int, str, str]]:
    """Ready jobs of a lane, priority and host by age: number, lane and path. Reads no more than is asked for."""
    folder = line(lane, priority, host)
    segments = _segments(journal, folder)
    if not segments:
        disk.remove_if_empty(journal.path(folder))
    for segment in segments:
        inside = f"{folder}/{segment}"
        # With numbers of one width the order of the names is that of the numbers.
        files = sorted(_names(journal, inside))
        for name in files:
            yield int(name.partition(".")[0]), lane, f"{inside}/{name}"
        if not files:
            journal.emptied.add(inside)


def clear_away(journal: Journal) -> None:
    """Take away folders of hosts and segments that nothing is left in, some at a time.

    Not by whoever takes the last job: a disk that syncs for others needs milliseconds for each, and a claim may empty a
    hundred of them.
    """
    for _ in range(min(len(journal.emptied), CLEARED_AT_ONCE)):
        segment = journal.emptied.pop()
        disk.remove_if_empty(journal.path(segment))
        disk.remove_if_empty(journal.path(segment.rpartition("/")[0]))


def ready_of_host(journal: Journal, lane: str, host: str, segment: str) -> Iterator[int]:
    """The numbers of a host's ready jobs in one segment, whatever their priority; `host` is as `layout.short` says."""
    for priority in priorities(journal, lane):
        for name in hosts(journal, lane, priority, shard_of(host)):
            if short(name) == host:
                yield from (file.number for file, _ in _files(journal, f"{line(lane, priority, name)}/{segment}"))


def lines(journal: Journal, lane: str) -> Iterator[tuple[int, str]]:
    """Priority and host of all ready jobs of a lane. Costs a look at the name of every host."""
    for priority in priorities(journal, lane):
        for shard in shards(journal, lane, priority):
            for host in hosts(journal, lane, priority, shard):
                yield priority, host


def delayed(journal: Journal, lane: str) -> Iterator[tuple[JobFileName, str]]:
    """Delayed jobs of a lane, minute by minute."""
    folder = f"pending/{lane}/{LATER}"
    for minute in _segments(journal, folder):
        files = list(_files(journal, f"{folder}/{minute}"))
        yield from files
        if not files:
            disk.remove_if_empty(journal.path(f"{folder}/{minute}"))


def workers(journal: Journal) -> list[str]:
    """Folders of workers that hold something, or did a moment ago."""
    return [name for name in disk.names(journal.path("processing")) if _is_folder(journal, f"processing/{name}")]


def claimed(journal: Journal, worker: str) -> Iterator[tuple[str, JobFileName, str]]:
    """What a worker holds: lane, file and path."""
    for lane in disk.names(journal.path(f"processing/{worker}")):
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
    """Paths of the jobs in these lanes and slots, by number, in portions of a segment each, oldest first."""
    roots = [f"{FINISHED[slot]}/{lane}" for slot in slots if slot in FINISHED for lane in lanes]
    if Slot.READY in slots:
        roots += [line(lane, priority, host) for lane in lanes for priority, host in lines(journal, lane)]
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


def counts(journal: Journal, lane: str) -> list[int]:
    """How many files a lane has in each slot: what its counters should say. Costs a look at every name."""
    told = [0] * len(Slot)
    told[Slot.READY] = sum(1 for priority, host in lines(journal, lane) for _ in ready(journal, lane, priority, host))
    told[Slot.DELAYED] = sum(1 for _ in delayed(journal, lane))
    told[Slot.CLAIMED] = sum(
        1 for worker in workers(journal) for held, _, _ in claimed(journal, worker) if held == lane
    )
    for slot in FINISHED:
        for segment in _segments(journal, f"{FINISHED[slot]}/{lane}"):
            told[slot] += sum(1 for _ in _files(journal, f"{FINISHED[slot]}/{lane}/{segment}"))
    return told


def tidy(journal: Journal) -> None:
    """Set aside what lies at the top of the folders of jobs and is no lane; take away lanes that nothing is left of."""
    tops = ("pending", *FINISHED.values())
    found = [(top, name) for top in tops for name in disk.names(journal.path(top)) if not _is_hidden(name)]
    # After listing, so that a lane that appeared meanwhile is known.
    lanes = journal.catch_up().lanes
    for top, name in found:
        path = f"{top}/{name}"
        if name in lanes:
            continue
        if is_lane(name) and os.path.isdir(journal.path(path)):  # noqa: PTH112
            # Of a run that was pruned. Only what is empty goes, for a new job may be on its way into it.
            disk.remove_empty_tree(journal.path(path))
        else:
            set_aside(journal.root, path, NOT_OURS)


def is_old_segment(name: str) -> bool:
    """Whether a folder is called as one in which format 1 had ready jobs, right below their priority."""
    return len(name) >= 9 and name.isdecimal() and name.isascii()


def _is_shard(name: str) -> bool:
    # What an older Longshore puts there while this one is at work is left for whoever opens the queue next.
    return is_shard(name) or is_old_segment(name)


def _told(folder: str) -> str:
    """The host of a folder, as a file's name tells it."""
    return "" if folder == NO_HOST else folder


def _segments(journal: Journal, folder: str) -> list[str]:
    names = disk.names(journal.path(folder))
    # Asked for each of very many hosts: where all are called as they should be, one look is enough.
    if all(map(_is_segment, names)):
        return sorted(names)
    return sorted(_called(journal, folder, _is_segment))


def _is_segment(name: str) -> bool:
    return name.isdecimal() and name.isascii()


def _called(journal: Journal, folder: str, fits: Callable[[str], bool]) -> list[str]:
    """What lies in a folder and is called as it should be; the rest is set aside."""
    found = []
    for name in disk.names(journal.path(folder)):
        if fits(name):
            found.append(name)
        elif not _is_hidden(name):
            set_aside(journal.root, f"{folder}/{name}", NOT_OURS)
    return found


def _files(journal: Journal, folder: str, only: frozenset[int] | None = None) -> Iterator[tuple[JobFileName, str]]:
    for name in _names(journal, folder):
        # Of a segment's thousand names, one or two may be wanted: the others need not be understood.
        if only is not None and int(name.partition(".")[0]) not in only:
            continue
        file = file_of(name)
        if file is None:
            set_aside(journal.root, f"{folder}/{name}", NO_NAME)
        else:
            yield file, f"{folder}/{name}"


def _names(journal: Journal, folder: str) -> list[str]:
    names = disk.names(journal.path(folder))
    found = [name for name in names if name[:12].isdecimal() and name.isascii() and name.endswith(".json")]
    if len(found) < len(names):
        for name in set(names).difference(found):
            if not _is_hidden(name):
                set_aside(journal.root, f"{folder}/{name}", NO_NAME)
    return found


def _is_hidden(name: str) -> bool:
    """Files that a network volume keeps for something that was removed while open: they vanish by themselves."""
    return name.startswith(".nfs")


def _is_folder(journal: Journal, path: str) -> bool:
    if os.path.isdir(journal.path(path)):  # noqa: PTH112
        return True
    if os.path.lexists(journal.path(path)) and not _is_hidden(path.rpartition("/")[2]):
        set_aside(journal.root, path, NOT_OURS)
    return False
