"""The queue in memory, at one tree of the branch.

`move_to` moves the state to any other tree by reading only the difference, forwards or back: the same few lines take
over what others pushed and undo what was refused. Operations change the state at once and record the changed files;
`commit` makes a tree of them. Finished jobs are loaded on first use: a worker that claims and settles never reads them.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Any
from uuid import uuid4

import msgspec

from longshore.clock import Clock
from longshore.extensions.archive import Month
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.job import FINISHED, State
from longshore.lease import Want, WorkerId
from longshore.media.git.objects.objects import NewObject, Objects, TooLargeError
from longshore.media.git.objects.tree import Entry, Tree, TreeChange
from longshore.media.git.state import archive
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.branch_files import BranchJob, HeartbeatFile, JobPath, LaneKey, Meta, StoredEntry
from longshore.media.git.state.entries import EntryTable
from longshore.media.git.state.heartbeats import Heartbeats
from longshore.media.git.state.job_index import JobIndex
from longshore.media.git.state.job_label import label_of
from longshore.media.git.state.lane_table import LaneTable
from longshore.media.git.state.readme import README
from longshore.media.git.state.rejections import MISSING, REASON, Rejection, count_rejected
from longshore.media.git.state.staged_files import StagedFiles
from longshore.media.sightings import Sightings

log = logging.getLogger(__name__)

_ALWAYS = (files.META, files.UUID, files.LANES, files.WORKERS, files.NOTES, files.AVAILABLE, files.RETRY, files.ACTIVE)
_ON_DEMAND = (*files.FINISHED_FOLDERS.values(), files.ARCHIVE)
_PRIORITIES = 10**18
_CACHED_PARTS = 4


class BranchState:
    """The queue at one tree; see the module's docstring. Used by one thread at a time."""

    def __init__(self, objects: Objects, clock: Clock, sightings: Sightings) -> None:
        self._objects = objects
        self.tree = Tree()
        self.meta = Meta()
        self.uuid = ""
        """The uuid of the queue; empty before the first job is added, or moved on by this version."""
        self.heartbeats = Heartbeats(clock, sightings)
        self.entries = EntryTable()
        self.jobs = JobIndex(self.heartbeats)
        self.lanes = LaneTable(self.jobs)
        self._staged = StagedFiles(objects)
        self._meta_touched = False
        self._parts: dict[str, dict[int, archive.Packed]] = {}
        self._taken: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """The numbers of jobs removed from each file of the archive since the last commit."""

    # Moving between trees

    def move_to(self, tree: Tree) -> None:
        """Move to this tree. There must be no uncommitted changes."""
        watched = _ALWAYS if self.jobs.finished is None else (*_ALWAYS, *_ON_DEMAND)
        before, after = self.tree.entries(self._objects), tree.entries(self._objects)
        changes: list[TreeChange] = []
        for name in watched:
            old, young = before.get(name), after.get(name)
            if isinstance(old, Tree) and isinstance(young, Tree) and old.oid is not None and old.oid == young.oid:
                after[name] = old
            elif old != young:
                changes += _difference(name, old, young, self._objects)
        self.tree = tree
        self._apply_changes(changes)

    def load_finished(self) -> dict[int, JobPath]:
        """Return the finished jobs; the first call reads them from the tree and the uncommitted changes."""
        if self.jobs.finished is None:
            self.jobs.finished = {}
            empty = Tree()
            for folder in _ON_DEMAND:
                self._apply_changes(_difference(folder, empty, self.tree.folder(folder, self._objects), self._objects))
            # Jobs can only have become finished since the last commit: nothing changes a finished job before this load.
            for path, oid in self._staged.changes.items():
                if path.partition("/")[0] in _ON_DEMAND:
                    for place in self._places(path, oid):
                        self.jobs.add(place)
        return self.jobs.finished

    def _apply_changes(self, changes: list[TreeChange]) -> None:
        for change in changes:
            for place in self._places(change.path, change.before):
                self.jobs.remove(place)
        for change in changes:
            top, _, rest = change.path.partition("/")
            if top in files.FOLDERS or top == files.ARCHIVE:
                for place in self._places(change.path, change.after):
                    self.jobs.add(place)
            elif top == files.LANES:
                self.lanes.update(rest, change.after, self._staged)
            elif top == files.WORKERS:
                self._update_heartbeat(rest, change.after)
            elif top == files.NOTES:
                written = None if change.after is None else self._staged.decoded(change.after, StoredEntry, change.path)
                self.entries.update(change.path, written)
            elif top == files.UUID:
                self.uuid = files.uuid_in(self._objects.read(change.after)) if change.after else ""
            else:
                self.meta = files.meta_of(self._objects.read(change.after) if change.after else b"")

    def _places(self, path: str, oid: str | None) -> list[JobPath]:
        """Return the jobs in a file: one, or those of a file of the archive."""
        if oid is None:
            return []
        if archive.is_part(path):
            return [line.place(path, oid) for line in self._part(path, oid).values()]
        place = files.place_of(path, oid)
        if place is None and path.partition("/")[0] in files.FOLDERS:
            log.warning("A file of the queue does not have the name of a job; it is ignored: %s", path[:200])
        return [] if place is None else [place]

    def _part(self, path: str, oid: str) -> dict[int, archive.Packed]:
        if oid not in self._parts:
            try:
                lines = archive.read(self._staged.read(oid))
            except (ValueError, TooLargeError, RecursionError) as error:
                log.warning("A file of the archive cannot be decoded: %s: %s", path[:200], error)
                lines = []
            while len(self._parts) >= _CACHED_PARTS:
                del self._parts[next(iter(self._parts))]
            self._parts[oid] = {line.number: line for line in lines}
        return self._parts[oid]

    def _update_heartbeat(self, name: str, oid: str | None) -> None:
        stem = name.removesuffix(".json")
        self.heartbeats.update(
            stem, None if oid is None else self._staged.decoded(oid, HeartbeatFile, f"{files.WORKERS}/{name}")
        )

    # Reading

    def find(self, number: int) -> JobPath | None:
        """Return the place of the job with this number; None if there is none."""
        return self.jobs.find(number) or self.load_finished().get(number)

    def named(self, run: str, kind: str, key: str) -> BranchJob | None:
        """Return the content of the job with this name; None if there is none."""
        place = self.place_named(run, kind, key)
        return None if place is None else self.record(place)

    def place_named(self, run: str, kind: str, key: str) -> JobPath | None:
        """Return the place of the job with this name; None if there is none."""
        self.load_finished()
        number = self.jobs.numbers.get(files.identity(run, kind, key))
        return None if number is None else self.find(number)

    def everything(self, states: frozenset[State] | None) -> Iterator[JobPath]:
        """Yield the places of all jobs in these states, unordered."""
        yield from self.jobs.unfinished_jobs(states)
        if states is None or states & FINISHED:
            yield from (place for place in self.load_finished().values() if states is None or place.state in states)

    def record(self, place: JobPath) -> BranchJob | None:
        """Return the content of a job; None if its file does not contain this job."""
        found = self.content(place)
        lane = self.lanes.by_number.get(place.lane)
        if found is None or lane is None or files.identity(found.run, found.kind, found.key) != place.identity:
            return None
        if (found.run, found.kind, found.partition) != (lane.run, lane.kind, lane.partition):
            return None
        return found

    def content(self, place: JobPath) -> BranchJob | None:
        """Return the content of a job's file, whatever job it is; None if it cannot be decoded."""
        return self._packed(place) if place.is_archived else self._staged.decoded(place.oid, BranchJob, place.path)

    def _packed(self, place: JobPath) -> BranchJob | None:
        line = self._part(place.folder, place.oid).get(place.number)
        try:
            return None if line is None else files.decoded(bytes(line.record), BranchJob)
        except msgspec.DecodeError as error:
            log.warning("A line of the archive cannot be decoded: %s: %s", place.folder, error)
            return None

    def archived(self) -> list[Month]:
        """Return the statistics of the archive per month."""
        folder = self.tree.folder(files.ARCHIVE, self._objects)
        changes = _difference(files.ARCHIVE, None, folder, self._objects)
        return archive.months({change.path: change.after for change in changes if change.after}, self._objects)

    def holder(self, place: JobPath) -> str:
        """Return the label of the worker that holds a job."""
        return self.heartbeats.label(place.holder)

    def silent(self) -> list[str]:
        """Return the workers whose heartbeat this observer has seen unchanged for longer than their lease."""
        return self.heartbeats.silent(self.jobs.held)

    def take(self, want: Want, limit: int, now: float) -> list[JobPath]:
        """Return the first pending jobs that match `want` and are due. The caller must move all of them."""
        return self.jobs.backlog.take(self._wanted(want), _hosts(want), limit, now)

    def has_work(self, want: Want, now: float) -> bool:
        """Return whether `take` would return a job."""
        return self.jobs.backlog.has_work(self._wanted(want), _hosts(want), now)

    def next_due(self) -> float | None:
        """Return the next instant at which a delayed job is due; None if no job is delayed."""
        return self.jobs.backlog.next_due()

    def _wanted(self, want: Want) -> list[int]:
        lanes = self.lanes.by_number.items()
        return [number for number, lane in lanes if want.matches(lane.run, lane.kind, lane.partition)]

    # Changing

    def add(self, record: BranchJob, content: bytes, folder: str = files.AVAILABLE, epoch: int = 0) -> bool:
        """Add a job unless its key is known; return whether it was added. `content` is the encoded record."""
        self.load_finished()
        identity = files.identity(record.run, record.kind, record.key)
        if identity in self.jobs.numbers:
            return False
        number = self.meta.next_job
        while self.jobs.find(number) is not None:
            number += 1  # a person has edited longshore.json
        self.meta.next_job, self._meta_touched = number + 1, True
        place = JobPath(
            number=number,
            lane=self.lanes.number(record.run, record.kind, record.partition, self.meta),
            identity=identity,
            label=label_of(record.kind, record.key, record.payload),
            host=files.host_of(record.host),
            priority=min(max(record.priority, -_PRIORITIES), _PRIORITIES),
            due=files.due_of(record.not_before),
            epoch=epoch,
            folder=folder,
        )
        self.move(None, place, content)
        return True

    def move(self, before: JobPath | None, after: JobPath | None, content: bytes | None = None) -> None:
        """Move a job from one place to another, with new or unchanged content; None adds or removes it."""
        if not self.uuid:
            # The first push decides: if this one is refused, the state gets the uuid that came first.
            self.uuid = uuid4().hex
            self._staged.write(files.UUID, f"{self.uuid}\n".encode())
        if before is not None:
            self.jobs.remove(before)
            if before.is_archived:
                self._taken[before.folder, before.oid].add(before.number)
            else:
                self._staged.remove(before.path)
            self.lanes.count(before, -1)
        if after is not None:
            if content is not None:
                after = msgspec.structs.replace(after, oid=self._staged.blob(content))
            self.jobs.add(after)
            self._staged.changes[after.path] = after.oid
            self.lanes.count(after, 1)

    def pack(self, jobs: list[tuple[JobPath, BranchJob]]) -> None:
        """Move completed jobs into the archive. Their state and the counters do not change."""
        for place, _ in jobs:
            self.jobs.remove(place)
            self._staged.remove(place.path)
        for month, lines in archive.pack(jobs):
            self._write_part(month, lines)

    def _write_part(self, month: str, lines: list[archive.Packed]) -> None:
        serial, self.meta.next_archive, self._meta_touched = self.meta.next_archive, self.meta.next_archive + 1, True
        path = archive.name_of(month, serial, len(lines))
        oid = self._staged.write(path, archive.written(lines))
        for line in lines:
            self.jobs.add(line.place(path, oid))

    def _rewrite_parts(self) -> None:
        for (path, oid), gone in self._taken.items():
            left = [line for line in self._part(path, oid).values() if line.number not in gone]
            self._staged.remove(path)
            if left:
                self._write_part(archive.month_of(path), left)
        self._taken.clear()

    def reject(self, place: JobPath, reason: str) -> None:
        """Move a file that has the name of a job and is none to rejected_work/, with the reason beside it."""
        log.warning(
            "A file of the queue is not one of its jobs; it is moved to %s: %s. %s", files.REJECTED, place.path, reason
        )
        lane = self.lanes.by_number.get(place.lane)
        self.move(place, None)
        target = f"{files.REJECTED}/{files.shard(place.number)}/{place.path.rpartition('/')[2]}"
        written = Rejection(run=lane.run if lane else "", reason=reason, path=place.path)
        self._staged.changes[target] = place.oid
        self._staged.write(f"{target.removesuffix('.json')}{REASON}", files.written(written))

    def report_missing(self, lane: LaneKey, number: int) -> None:
        """Report that job files of a lane were removed by hand."""
        log.warning("%d job files of run %r are gone: they were removed by hand", number, lane.run)
        written = Rejection(run=lane.run, reason="Their files were removed by hand.", path="", jobs=number)
        self._staged.write(f"{files.REJECTED}/{MISSING}/{token_hex(6)}{REASON}", files.written(written))

    def rejected(self, run: str | None) -> int:
        """Return the number of rejected files and missing jobs; with `run`, of those that belong to it."""
        folder = self.tree.folder(files.REJECTED, self._objects)
        changes = _difference(files.REJECTED, None, folder, self._objects)
        found = {change.path: change.after for change in changes if change.after is not None}
        return count_rejected(found, run, self._staged.decoded)

    def restore_lane(self, number: int, record: BranchJob) -> None:
        """Write the file of a lane again that a person removed."""
        self.lanes.put(number, LaneKey(run=record.run, kind=record.kind, partition=record.partition))

    def write_heartbeat(self, worker: WorkerId, lease_seconds: float, about: Mapping[str, Any] | None = None) -> None:
        """Write the worker's next heartbeat. With `about` the worker is then registered; without, nothing changes."""
        self._write_beat(files.stem_of(worker), self.heartbeats.next_heartbeat(worker, lease_seconds, about))

    def deregister(self, worker: WorkerId) -> None:
        """Remove a worker from the registry. This renews no lease."""
        stem = files.stem_of(worker)
        if stem in self.jobs.held and self.heartbeats.is_registered(stem):
            self._write_beat(stem, self.heartbeats.without_info(stem))
        elif self.heartbeats.is_registered(stem):
            self.remove_heartbeat(stem)

    def remove_heartbeat(self, stem: str) -> None:
        """Remove the heartbeat of a worker that is gone."""
        if self.heartbeats.exists(stem):
            self.heartbeats.update(stem, None)
            self._staged.remove(f"{files.WORKERS}/{stem}.json")

    def _write_beat(self, stem: str, beat: HeartbeatFile) -> None:
        self.heartbeats.update(stem, beat)
        self._staged.write(f"{files.WORKERS}/{stem}.json", files.written(beat))

    def swap_entry(self, namespace: str, entry: StateEntry) -> str | None:
        """Write an entry if its version is the current one. Return the new version, or None."""
        path = files.entry_path(namespace, entry.name)
        if entry.version != self.entries.version(path):
            return None
        if entry.value is None:
            if entry.version != ABSENT:
                self.entries.update(path, None)
                self._staged.remove(path)
            return ABSENT
        version, self.meta.next_note, self._meta_touched = str(self.meta.next_note), self.meta.next_note + 1, True
        written = StoredEntry(namespace=namespace, name=entry.name, version=version, value=entry.value)
        self.entries.update(path, written)
        self._staged.write(path, files.written(written))
        return version

    def set_format(self) -> None:
        """Record that all files have the current format, and explain it in the README."""
        self.meta.format, self._meta_touched = files.FORMAT, True
        self._staged.write(files.README, README.encode())

    def count_claims(self, *, claims: int, lost: int) -> None:
        """Count claims, and the races that were lost before they succeeded."""
        self.meta.claims += claims
        self.meta.lost_races += lost
        self._meta_touched = True

    @property
    def changed(self) -> bool:
        """Whether there are uncommitted changes."""
        return bool(self._staged.changes or self._taken or self._meta_touched or self.lanes.changed)

    def commit(self) -> list[NewObject]:
        """Move to the tree with all changes since the last commit, and return its new objects."""
        self._rewrite_parts()
        if self._meta_touched:
            self._staged.write(files.META, files.written(self.meta))
        self.lanes.stage(self._staged)
        self.tree, made = self._staged.commit(self.tree)
        self._meta_touched = False
        return made


def _hosts(want: Want) -> frozenset[str]:
    """Return the excluded hosts as `files.host_of` returns them."""
    return frozenset(files.host_of(host) for host in want.without_hosts)


def _difference(name: str, before: Entry | None, after: Entry | None, objects: Objects) -> list[TreeChange]:
    """Return the files that differ under one name of the root tree."""
    found: list[TreeChange] = []
    if isinstance(before, Tree) or isinstance(after, Tree):
        folders = [entry if isinstance(entry, Tree) else Tree() for entry in (before, after)]
        found += folders[0].changes(folders[1], objects, f"{name}/")
    old, young = (entry if isinstance(entry, str) else None for entry in (before, after))
    if old is not None or young is not None:
        found.append(TreeChange(name, old, young))
    return found
