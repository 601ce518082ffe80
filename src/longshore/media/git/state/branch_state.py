"""The queue in memory, as one tree of the branch says it.

A ledger stands at one tree. `move_to` takes it to any other by looking at the difference alone, forwards or back, so
that what others pushed is taken in and what was refused is undone by the same few lines. Operations change it at once
and note which files that means; `commit` makes the tree of them. Finished jobs are looked at only when first asked for:
a worker that claims and settles never reads them.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from longshore.extensions.archive import Month
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.job import FINISHED, State
from longshore.lease import Want, WorkerId
from longshore.media.git.objects.objects import New, Objects, TooLargeError, new
from longshore.media.git.objects.tree import Entry, Tree, TreeChange
from longshore.media.git.state import archive
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.backlog import Backlog
from longshore.media.git.state.branch_files import BranchJob, HeartbeatFile, JobPath, LaneKey, Meta, StoredEntry
from longshore.media.git.state.entries import EntryTable
from longshore.media.git.state.heartbeats import Heartbeats

log = logging.getLogger(__name__)
T = TypeVar("T")

_ALWAYS = (files.META, files.LANES, files.WORKERS, files.NOTES, files.AVAILABLE, files.RETRY, files.ACTIVE)
_WHEN_ASKED = (*files.FINISHED_FOLDERS.values(), files.ARCHIVE)
_PRIORITIES = 10**18
_PARTS_AT_HAND = 4


class BranchState:
    """See the module. Used by one thread at a time."""

    def __init__(self, objects: Objects, monotonic: Callable[[], float]) -> None:
        self._objects = objects
        self.tree = Tree()
        self.meta = Meta()
        self.lanes: dict[int, LaneKey] = {}
        self.pending: dict[int, JobPath] = {}
        self.active: dict[int, JobPath] = {}
        self.held: defaultdict[str, dict[int, JobPath]] = defaultdict(dict)
        """What each worker holds, by the name of its file."""
        self.heartbeats = Heartbeats(monotonic)
        self.notebook = EntryTable()
        self._finished: dict[int, JobPath] | None = None
        self._known: dict[str, int] = {}
        self._lane_numbers: dict[tuple[str, str, str], int] = {}
        self._backlog = Backlog(self.pending)
        self._changes: dict[str, str | None] = {}
        self._blobs: dict[str, New] = {}
        self._touched_lanes: set[int] = set()
        self._meta_touched = False
        self._parts: dict[str, dict[int, archive.Packed]] = {}
        self._taken: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """What was taken out of which file of the archive since the last commit."""

    # Where it stands

    def move_to(self, tree: Tree) -> None:
        """Stand at this tree. Nothing may be left uncommitted."""
        watched = _ALWAYS if self._finished is None else (*_ALWAYS, *_WHEN_ASKED)
        before, after = self.tree.entries(self._objects), tree.entries(self._objects)
        changes: list[TreeChange] = []
        for name in watched:
            old, young = before.get(name), after.get(name)
            if isinstance(old, Tree) and isinstance(young, Tree) and old.oid is not None and old.oid == young.oid:
                after[name] = old
            elif old != young:
                changes += _difference(name, old, young, self._objects)
        self.tree = tree
        self._take_in(changes)

    def load_finished(self) -> dict[int, JobPath]:
        """The finished jobs, read from the tree the first time."""
        if self._finished is None:
            self._finished = {}
            empty = Tree()
            for folder in _WHEN_ASKED:
                self._take_in(_difference(folder, empty, self.tree.folder(folder, self._objects), self._objects))
        return self._finished

    def _take_in(self, changes: list[TreeChange]) -> None:
        for change in changes:
            for place in self._places(change.path, change.before):
                self._forget(place)
        for change in changes:
            top, _, rest = change.path.partition("/")
            if top in files.FOLDERS or top == files.ARCHIVE:
                for place in self._places(change.path, change.after):
                    self._learn(place)
            elif top == files.LANES:
                self._learn_lane(rest, change.after)
            elif top == files.WORKERS:
                self._learn_beat(rest, change.after)
            elif top == files.NOTES:
                written = None if change.after is None else self._decoded(change.after, StoredEntry, change.path)
                self.notebook.learn(change.path, written)
            else:
                self.meta = files.meta_of(self._objects.read(change.after) if change.after else b"")

    def _places(self, path: str, oid: str | None) -> list[JobPath]:
        """The jobs that a file holds: one, or those of a file of the archive."""
        if oid is None:
            return []
        if archive.is_part(path):
            return [line.place(path, oid) for line in self._part(path, oid).values()]
        place = files.place_of(path, oid)
        if place is None and path.partition("/")[0] in files.FOLDERS:
            log.warning("A file of the queue has a name that no job has; it is left alone: %s", path[:200])
        return [] if place is None else [place]

    def _part(self, path: str, oid: str) -> dict[int, archive.Packed]:
        if oid not in self._parts:
            try:
                written = self._blobs.get(oid)
                lines = archive.read(written.data if written else self._objects.read(oid))
            except (ValueError, TooLargeError, RecursionError) as error:
                log.warning("A file of the archive cannot be understood: %s: %s", path[:200], error)
                lines = []
            while len(self._parts) >= _PARTS_AT_HAND:
                del self._parts[next(iter(self._parts))]
            self._parts[oid] = {line.number: line for line in lines}
        return self._parts[oid]

    def _learn_lane(self, name: str, oid: str | None) -> None:
        stem = name.removesuffix(".json")
        if not stem.isdigit():
            return
        gone = self.lanes.pop(int(stem), None)
        # What it was may have another number by now: lanes are given theirs anew after a refused push.
        if gone is not None and self._lane_numbers.get(words := (gone.run, gone.kind, gone.partition)) == int(stem):
            del self._lane_numbers[words]
        if oid is not None and (lane := self._decoded(oid, LaneKey, f"{files.LANES}/{name}")) is not None:
            self.lanes[int(stem)] = lane
            self._lane_numbers[lane.run, lane.kind, lane.partition] = int(stem)

    def _learn_beat(self, name: str, oid: str | None) -> None:
        stem = name.removesuffix(".json")
        self.heartbeats.learn(
            stem, None if oid is None else self._decoded(oid, HeartbeatFile, f"{files.WORKERS}/{name}")
        )

    def _learn(self, place: JobPath) -> None:
        match place.state:
            case State.PENDING:
                self.pending[place.number] = place
                self._backlog.add(place)
            case State.CLAIMED:
                self.active[place.number] = place
                self.held[place.holder][place.number] = place
                self.heartbeats.watch(place.holder)
            case _ if self._finished is not None:
                self._finished[place.number] = place
            case _:
                return
        self._known[place.identity] = place.number

    def _forget(self, place: JobPath) -> None:
        match place.state:
            case State.PENDING:
                self.pending.pop(place.number, None)
            case State.CLAIMED:
                self.active.pop(place.number, None)
                if (held := self.held.get(place.holder)) is not None:
                    held.pop(place.number, None)
                    if not held:
                        del self.held[place.holder]
            case _ if self._finished is not None:
                self._finished.pop(place.number, None)
        if self._known.get(place.identity) == place.number:
            del self._known[place.identity]

    # What is in it

    def find(self, number: int) -> JobPath | None:
        """Where the job of this number stands."""
        return self.pending.get(number) or self.active.get(number) or self.load_finished().get(number)

    def everything(self, states: frozenset[State] | None) -> Iterator[JobPath]:
        """Every job in one of these states, in no order."""
        if states is None or State.PENDING in states:
            yield from self.pending.values()
        if states is None or State.CLAIMED in states:
            yield from self.active.values()
        if states is None or states & FINISHED:
            yield from (place for place in self.load_finished().values() if states is None or place.state in states)

    def record(self, place: JobPath) -> BranchJob | None:
        """What is written of a job; None where its file holds no such job."""
        found = self._packed(place) if place.is_archived else self._decoded(place.oid, BranchJob, place.path)
        lane = self.lanes.get(place.lane)
        if found is None or lane is None or files.identity(found.run, found.kind, found.key) != place.identity:
            return None
        if (found.run, found.kind, found.partition) != (lane.run, lane.kind, lane.partition):
            return None
        return found

    def _packed(self, place: JobPath) -> BranchJob | None:
        line = self._part(place.folder, place.oid).get(place.number)
        try:
            return None if line is None else files.decoded(bytes(line.record), BranchJob)
        except msgspec.DecodeError as error:
            log.warning("A line of the archive cannot be understood: %s: %s", place.folder, error)
            return None

    def archived(self) -> list[Month]:
        """What is in the archive, month by month."""
        folder = self.tree.folder(files.ARCHIVE, self._objects)
        changes = _difference(files.ARCHIVE, None, folder, self._objects)
        return archive.months({change.path: change.after for change in changes if change.after}, self._objects)

    def holder(self, place: JobPath) -> str:
        """The label of the worker that holds a job."""
        return self.heartbeats.label(place.holder)

    def silent(self) -> list[str]:
        """The workers whose heartbeat has not changed for a full lease, as watched from here."""
        return self.heartbeats.silent(self.held)

    def take(self, want: Want, limit: int, now: float) -> list[JobPath]:
        """The first pending jobs that are wanted and due. All of them must be moved."""
        return self._backlog.take(self._wanted(want), _hosts(want), limit, now)

    def has_work(self, want: Want, now: float) -> bool:
        """Whether `take` would find something."""
        return self._backlog.has_work(self._wanted(want), _hosts(want), now)

    def next_due(self) -> float | None:
        """The next instant at which a delayed job is due."""
        return self._backlog.next_due()

    def _wanted(self, want: Want) -> list[int]:
        return [number for number, lane in self.lanes.items() if want.matches(lane.run, lane.kind, lane.partition)]

    # Changing it

    def add(self, record: BranchJob, content: bytes, folder: str = files.AVAILABLE, epoch: int = 0) -> bool:
        """Add a job unless it is known, and say whether. `content` is the record, written."""
        self.load_finished()
        identity = files.identity(record.run, record.kind, record.key)
        if identity in self._known:
            return False
        number, self.meta.next_job, self._meta_touched = self.meta.next_job, self.meta.next_job + 1, True
        place = JobPath(
            number=number,
            lane=self._lane_number(record.run, record.kind, record.partition),
            identity=identity,
            host=files.host_of(record.host),
            priority=min(max(record.priority, -_PRIORITIES), _PRIORITIES),
            due=files.due_of(record.not_before),
            epoch=epoch,
            folder=folder,
        )
        self.move(None, place, content)
        return True

    def move(self, before: JobPath | None, after: JobPath | None, content: bytes | None = None) -> None:
        """Take a job from one place to another, with new content or as it is."""
        if before is not None:
            self._forget(before)
            if before.is_archived:
                self._taken[before.folder, before.oid].add(before.number)
            else:
                self._changes[before.path] = None
            self._count(before, -1)
        if after is not None:
            if content is not None:
                after = msgspec.structs.replace(after, oid=self._blob(content))
            self._learn(after)
            self._changes[after.path] = after.oid
            self._count(after, 1)

    def pack(self, jobs: list[tuple[JobPath, BranchJob]]) -> None:
        """Move completed jobs into the archive. They stay what they are, and so do the counters."""
        for place, _ in jobs:
            self._forget(place)
            self._changes[place.path] = None
        for month, lines in archive.pack(jobs):
            self._write_part(month, lines)

    def _write_part(self, month: str, lines: list[archive.Packed]) -> None:
        serial, self.meta.next_archive, self._meta_touched = self.meta.next_archive, self.meta.next_archive + 1, True
        path, oid = archive.name_of(month, serial, len(lines)), self._blob(archive.written(lines))
        self._changes[path] = oid
        for line in lines:
            self._learn(line.place(path, oid))

    def _rewrite_parts(self) -> None:
        for (path, oid), gone in self._taken.items():
            left = [line for line in self._part(path, oid).values() if line.number not in gone]
            self._changes[path] = None
            if left:
                self._write_part(archive.month_of(path), left)
        self._taken.clear()

    def set_aside(self, place: JobPath) -> None:
        """Take away a file that stands in the place of a job and holds none, so that nobody waits for it."""
        log.warning("A file of the queue holds no job; it is set aside in %s: %s", files.REJECTED, place.path)
        self.move(place, None)
        self._changes[f"{files.REJECTED}/{files.shard(place.number)}/{place.path.rpartition('/')[2]}"] = place.oid

    @property
    def rejected(self) -> int:
        """How many files were set aside."""
        shards = self.tree.folder(files.REJECTED, self._objects).entries(self._objects).values()
        return sum(len(shard.entries(self._objects)) for shard in shards if isinstance(shard, Tree))

    def keep_alive(self, worker: WorkerId, lease_seconds: float, about: Mapping[str, Any] | None = None) -> None:
        """Write the worker's next heartbeat. With words it is on the roll from then on; without, it stays as it is."""
        self._write_beat(files.stem_of(worker), self.heartbeats.following(worker, lease_seconds, about))

    def sign_out(self, worker: WorkerId) -> None:
        """Take a worker off the roll. That renews nothing."""
        stem = files.stem_of(worker)
        if stem in self.held and self.heartbeats.on_roll(stem):
            self._write_beat(stem, self.heartbeats.without_words(stem))
        elif self.heartbeats.on_roll(stem):
            self.bury(stem)

    def bury(self, stem: str) -> None:
        """Remove the heartbeat of a worker that is gone."""
        if self.heartbeats.is_there(stem):
            self.heartbeats.learn(stem, None)
            self._changes[f"{files.WORKERS}/{stem}.json"] = None

    def _write_beat(self, stem: str, beat: HeartbeatFile) -> None:
        self.heartbeats.learn(stem, beat)
        self._changes[f"{files.WORKERS}/{stem}.json"] = self._blob(files.written(beat))

    def note(self, shelf: str, note: StateEntry) -> str | None:
        """Write a note, if its version is the one that is there. Returns the new one."""
        path = files.note_path(shelf, note.name)
        if note.version != self.notebook.version(path):
            return None
        if note.value is None:
            if note.version != ABSENT:
                self.notebook.learn(path, None)
                self._changes[path] = None
            return ABSENT
        version, self.meta.next_note, self._meta_touched = str(self.meta.next_note), self.meta.next_note + 1, True
        written = StoredEntry(shelf=shelf, name=note.name, version=version, value=note.value)
        self.notebook.learn(path, written)
        self._changes[path] = self._blob(files.written(written))
        return version

    def set_format(self) -> None:
        """Say that everything is as this version writes it."""
        self.meta.format, self._meta_touched = files.FORMAT, True

    def tally(self, *, claims: int, lost: int) -> None:
        """Count claims, and the races lost on the way to them."""
        self.meta.claims += claims
        self.meta.lost_races += lost
        self._meta_touched = True

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._changes or self._taken or self._meta_touched)

    def commit(self) -> list[New]:
        """Stand at the tree of all changes since the last one. Returns the objects it is made of."""
        self._rewrite_parts()
        if self._meta_touched:
            self._changes[files.META] = self._blob(files.written(self.meta))
        for number in self._touched_lanes:
            lane = self.lanes[number]
            path = f"{files.LANES}/{number}.json"
            if lane.pending or lane.claimed or lane.completed or lane.failed or lane.cancelled:
                self._changes[path] = self._blob(files.written(lane))
            else:
                self._changes[path] = None
                del self.lanes[number]
                del self._lane_numbers[lane.run, lane.kind, lane.partition]
        self.tree = self.tree.edited(self._changes, self._objects)
        made = list(self._blobs.values())
        self.tree.write(made)
        self._changes, self._blobs, self._touched_lanes, self._meta_touched = {}, {}, set(), False
        return made

    def _lane_number(self, run: str, kind: str, partition: str) -> int:
        number = self._lane_numbers.get((run, kind, partition))
        if number is None:
            number, self.meta.next_lane = self.meta.next_lane, self.meta.next_lane + 1
            self.lanes[number] = LaneKey(run=run, kind=kind, partition=partition)
            self._lane_numbers[run, kind, partition] = number
        return number

    def _count(self, place: JobPath, number: int) -> None:
        lane = self.lanes.get(place.lane)
        if lane is not None:
            setattr(lane, place.state.value, max(0, getattr(lane, place.state.value) + number))
            self._touched_lanes.add(place.lane)

    def _blob(self, content: bytes) -> str:
        made = new("blob", content)
        self._blobs[made.oid] = made
        return made.oid

    def _decoded(self, oid: str, kind: type[T], path: str) -> T | None:
        try:
            written = self._blobs.get(oid)
            return files.decoded(written.data if written else self._objects.read(oid), kind)
        except (msgspec.DecodeError, TooLargeError) as error:
            log.warning("A file of the queue cannot be understood: %s: %s", path[:200], error)
            return None


def _hosts(want: Want) -> frozenset[str]:
    """The hosts that are not wanted, as places say them."""
    return frozenset(files.host_of(host) for host in want.without_hosts)


def _difference(name: str, before: Entry | None, after: Entry | None, objects: Objects) -> list[TreeChange]:
    """The files under one name at the top that differ."""
    found: list[TreeChange] = []
    if isinstance(before, Tree) or isinstance(after, Tree):
        folders = [entry if isinstance(entry, Tree) else Tree() for entry in (before, after)]
        found += folders[0].changes(folders[1], objects, f"{name}/")
    old, young = (entry if isinstance(entry, str) else None for entry in (before, after))
    if old is not None or young is not None:
        found.append(TreeChange(name, old, young))
    return found
