"""The journal: one change after another, each made by one `link(2)`. It is the authority; all folders follow it.

Authority
    A change is a file `journal/GENERATION/NUMBER.json`. It exists as soon as its file is linked to that name, and not
    before. Of two processes that try for one number, one gets EEXIST, looks at what the other did, and tries for the
    next. So every change, of one job or of ten thousand, is all or nothing, and all changes have one order.

Invariants
    1. A change is linked only by someone who has read all changes before it and carried them out, so what it was
       decided on is what it follows.
    2. All new content lies in the change's own folder `staging/ID/`, synced, before the link. After it only renames and
       unlinks are left. Each names a path that is never used twice (see `layout`), so it works once, whoever does it
       and however late: a process that was stopped for an hour and goes on finds nothing left to do.
    3. A change has been carried out when its folder in `staging/` is gone. Whoever comes upon one that is not helps:
       a process that dies after the link has changed the queue whole, one that dies before has changed nothing.
    4. An answer is given only after the link was synced.

Generations
    After every `GENERATION` changes a folder begins, with the state so far in `base.json`, so that opening reads little
    and old changes can go. A folder to come lies inside the one before it and is put in its place by a rename, which
    works once; one that is done with is moved away whole. Hence a late process can neither link into the past nor bring
    a past folder back. Before that all folders its changes touched are synced.

Power cut
    The journal and all staged content are synced, renames are not. The first to open the queue after the machine has
    started carries out all changes that are kept once more, in order.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from longshore.errors import QueueError, QueueUnavailableError
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import Slot
from longshore.media.directory.files.moved_jobs import MovedJobs
from longshore.media.directory.files.quarantine import make_way, set_aside
from longshore.media.directory.journal.entry import JournalEntry, JournalHead, new_id
from longshore.media.directory.journal.pending_change import PendingChange

NOTE = "note"
"""What a change is called that writes notes."""
GENERATION = 64
"""Changes in one folder of the journal."""
PATIENCE = (0.0005, 0.001, 0.002)
"""Seconds given to whoever made a change to carry it out before others help: helping costs both."""

T = TypeVar("T")

_NO_SUCH_NAME = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
"""What a volume says of a name that it can give to no file, now or ever."""
_decode_entry = msgspec.json.Decoder(JournalEntry).decode
_decode_head = msgspec.json.Decoder(JournalHead).decode


class Journal:
    """The journal of the queue in the folder `root`. Used by one thread at a time."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.head = JournalHead()
        self.due: dict[str, float | None] = {}
        """When the first delayed job of a lane is due, as far as it has been looked up since the lane changed."""
        self.miscounted = False
        """Something that a change had counted in was set aside: counters and keys are to be put right."""
        self.notes_written = 0
        """How many changes of notes were seen, or may have been missed."""
        self.emptied: set[str] = set()
        """Folders of ready jobs that may be empty, to be taken away when there is time (see `listing`)."""
        self._open_ends: list[JournalEntry] = []
        self._traces: list[MovedJobs] = []

    def open(self) -> None:
        """Read the state, and carry out what others left undone."""
        self._reload()
        marker = f"{self.root}/boots/{_boot()}"
        if not os.path.lexists(marker):
            self._replay()
            disk.write_hint(marker, b"")

    def path(self, relative: str) -> str:
        """Where something of the queue lies in the file system."""
        return f"{self.root}/{relative}"

    def look(self) -> JournalHead:
        """Read what has changed since the last look. Costs one system call where nothing has."""
        while True:
            try:
                data = disk.read(self._entry(self.head.n + 1))
            except FileNotFoundError:
                if os.path.lexists(self._folder(_generation(self.head.n + 1))) or os.path.lexists(
                    self._folder(_generation(max(self.head.n, 1)))
                ):
                    return self.head
                self._reload()
                continue
            self._add(self._parse(data, self.head.n + 1))

    def changed(self, n: int) -> bool:
        """Whether anything has changed after the n-th change. Costs two system calls, on any thread."""
        return (
            self.head.n > n
            or os.path.lexists(self._entry(n + 1))
            or not os.path.lexists(self._folder(_generation(max(n, 1))))
        )

    def watched(self, n: int) -> list[str]:
        """The folders in which a sign of the change after the n-th will appear."""
        return [self.path("journal"), self._folder(_generation(n + 1))]

    def catch_up(self) -> JournalHead:
        """Read what has changed and see to it that it has been carried out: the folders are now as the head says."""
        self.look()
        for entry in self._open_ends:
            if self._is_open(entry):
                self._carry_out(entry)
        self._open_ends.clear()
        return self.head

    def commit(self, draft: PendingChange) -> bool:
        """Make the change, if nothing else has changed since `catch_up`. False if something has: decide anew."""
        entry = draft.entry(self.head)
        if entry.n % GENERATION == 1 and entry.n > 1:
            self._begin_generation(_generation(entry.n))
        target = self._entry(entry.n)
        # Mostly another was first already, and the sync is spared.
        if os.path.lexists(target):
            return False
        draft.write(entry)
        draft.committed = None
        try:
            os.link(draft.file, target)
        except FileExistsError:
            # A network volume may do what was asked, lose the answer, and be asked again.
            if not os.path.samefile(draft.file, target):  # noqa: PTH121
                draft.committed = False
                return False
        except FileNotFoundError:
            draft.committed = False
            if not os.path.lexists(draft.file):
                raise QueueUnavailableError(
                    "This process stood still for so long that its change was taken for abandoned. Try again."
                ) from None
            return False
        draft.committed = True
        disk.sync_folder(os.path.dirname(target))  # noqa: PTH120
        self._add(entry)
        # It stays an open end if this fails: the next call goes on with it.
        whole = self._carry_out(entry)
        self._open_ends.remove(entry)
        if not whole:
            raise QueueError(
                f"The volume under the queue '{self.root}' cannot give a file the name it should have. What could not "
                "be put in its place lies in rejected/, with the reason beside it. Use a volume with longer names."
            )
        return True

    def transact(self, what: str, decide: Callable[[PendingChange, JournalHead], T]) -> T:
        """Make the change that `decide` puts into the draft, and return its answer.

        It is called again, with an empty draft and the new head, as often as another change came first; what it staged
        before is still there. It must change nothing but the draft.
        """
        with PendingChange(self.root, what) as draft:
            for tries in count():
                head = self.catch_up()
                draft.restart(head)
                answer = decide(draft, head)
                if draft.is_empty or self.commit(draft):
                    return answer
                # Naps of random length, so that those who collided do not do so again.
                time.sleep(random.uniform(0, min(0.02, 0.0005 * 2**tries)))  # noqa: S311
        raise AssertionError("unreachable")

    @contextmanager
    def trace(self) -> Iterator[MovedJobs]:
        """Note where jobs go from now to the end of the block, as far as `look` and `catch_up` are called in it."""
        trace = MovedJobs()
        self._traces.append(trace)
        try:
            yield trace
        finally:
            self._traces.remove(trace)

    def sweep(self, name: str) -> None:
        """Take away what a process left in staging/ by that name. Safe even if it lives, and was only stopped for long.

        With its entry renamed it can no longer be linked; if it was linked before, it is carried out like any other.
        """
        folder = self.path(f"staging/{name}")
        if os.path.isdir(folder):  # noqa: PTH112
            disk.move(f"{folder}/entry.json", f"{folder}/swept.json")
            self.catch_up()
        disk.remove_tree(folder)

    def _add(self, entry: JournalEntry) -> None:
        self.head.add(entry)
        self._open_ends.append(entry)
        self.notes_written += entry.what == NOTE
        for lane, delta in entry.deltas.items():
            if delta[Slot.DELAYED]:
                self.due.pop(lane, None)
        for trace in self._traces:
            trace.follow(entry)

    def _is_open(self, entry: JournalEntry) -> bool:
        """Whether an entry still has to be carried out, given a moment to whoever made it."""
        folder = self.path(f"staging/{entry.id}")
        for pause in PATIENCE:
            if not os.path.lexists(folder):
                return False
            time.sleep(pause)
        return os.path.lexists(folder)

    def _carry_out(self, entry: JournalEntry) -> bool:
        """Do what an entry says. Any number of processes may be at it; each step works for one of them.

        False where something of it can never be done on this volume; that is set aside.
        """
        whole = True
        for source, target in entry.moves:
            try:
                self._move(source, target)
            except OSError as error:
                if error.errno not in _NO_SUCH_NAME:
                    raise
                # Left as it is, it would stop everybody for ever.
                self._give_up(source, target, error)
                whole = False
        for path in entry.removes:
            disk.remove(self.path(path))
        disk.remove_tree(self.path(f"staging/{entry.id}"))
        return whole

    def _move(self, source: str, target: str) -> None:
        try:
            disk.move(self.path(source), self.path(target))
        except (NotADirectoryError, IsADirectoryError, FileExistsError):
            make_way(self.root, target)
            disk.move(self.path(source), self.path(target))

    def _give_up(self, source: str, target: str, error: OSError) -> None:
        """Set aside what can never be where it belongs. Whoever comes later finds it gone."""
        if os.path.lexists(self.path(source)):
            set_aside(self.root, source, f"It cannot be put where it belongs ({error.strerror}): {target}")
            self.miscounted = True

    def _begin_generation(self, generation: int) -> None:
        """Put the folder of the next entries in its place, and take away those that are done with."""
        if os.path.lexists(self._folder(generation)):
            return
        coming = f"{self._folder(generation - 1)}/next"
        own = self.path(f"staging/base.{new_id()}")
        disk.write(own, msgspec.json.encode(self.head))
        try:
            # Whoever is first: all write the same, for it follows from the entries.
            with suppress(FileExistsError):
                os.link(own, f"{coming}/base.json")
            with suppress(FileExistsError):
                os.mkdir(f"{coming}/next")  # noqa: PTH102
            disk.sync_folder(coming)
            os.rename(coming, self._folder(generation))  # noqa: PTH104
        except FileNotFoundError:
            # Another has put it there in the meantime.
            return
        finally:
            disk.remove(own)
        disk.sync_folder(self.path("journal"))
        for old in self._generations():
            if old < generation - 1:
                self._retire(old)

    def _retire(self, generation: int) -> None:
        """Take away a folder of entries, all carried out, when nothing of them can be lost any more."""
        touched = {os.path.dirname(path) for entry in self._entries(generation) for path in _paths(entry)}  # noqa: PTH120
        disk.sync_folders([self.path(folder) for folder in sorted(touched)])
        trash = self.path(f"trash/{generation}.{new_id()}")
        if disk.move(self._folder(generation), trash):
            disk.remove_tree(trash)

    def _reload(self) -> None:
        """Start from the newest folder, after opening or after falling so far behind that entries are gone."""
        while True:
            generations = self._generations()
            if not generations:
                raise QueueUnavailableError(
                    f"The journal of the queue '{self.root}' is gone. Open the queue again: it is then rebuilt from "
                    "the jobs that are there."
                )
            try:
                data = disk.read(f"{self._folder(max(generations))}/base.json")
                break
            except FileNotFoundError:
                continue  # Retired just now, so there is a newer one.
        try:
            self.head = _decode_head(data)
        except msgspec.DecodeError as error:
            raise self._damaged("base.json", error) from error
        self.due.clear()
        self.notes_written += 1
        self._open_ends.clear()
        for trace in self._traces:
            trace.lost = True
        self.look()

    def _replay(self) -> None:
        """Carry out all entries that are kept, in order, whether it has been done or not."""
        for generation in self._generations():
            for entry in self._entries(generation):
                self._carry_out(entry)

    def _generations(self) -> list[int]:
        return sorted(int(name) for name in disk.names(self.path("journal")) if name.isdigit())

    def _entries(self, generation: int) -> Iterator[JournalEntry]:
        for n in range(generation * GENERATION + 1, (generation + 1) * GENERATION + 1):
            try:
                data = disk.read(self._entry(n))
            except FileNotFoundError:
                return
            yield self._parse(data, n)

    def _parse(self, data: bytes, n: int) -> JournalEntry:
        try:
            entry = _decode_entry(data)
        except msgspec.DecodeError as error:
            raise self._damaged(f"{n:012d}.json", error) from error
        if entry.n != n:
            raise self._damaged(f"{n:012d}.json", ValueError(f"it says that it is number {entry.n}"))
        return entry

    def _damaged(self, name: str, error: Exception) -> QueueError:
        return QueueError(
            f"The journal of the queue '{self.root}' is damaged: {name} cannot be read ({error}). Stop all workers, "
            f"move '{self.root}/journal' away and open the queue again: it is rebuilt from the jobs that are there."
        )

    def _folder(self, generation: int) -> str:
        return f"{self.root}/journal/{generation:010d}"

    def _entry(self, n: int) -> str:
        return f"{self._folder(_generation(n))}/{n:012d}.json"


def begin(root: str, head: JournalHead) -> None:
    """Make the first folder of a journal, unless there is one."""
    own = f"{root}/staging/journal.{new_id()}"
    os.makedirs(f"{own}/next")  # noqa: PTH103
    disk.write(f"{own}/base.json", msgspec.json.encode(head))
    disk.sync_folder(own)
    try:
        os.rename(own, f"{root}/journal/{_generation(head.n + 1):010d}")  # noqa: PTH104
    except OSError:
        # Not empty, so another was first; a journal that cannot be made shows when it is read.
        disk.remove_tree(own)
    disk.sync_folder(f"{root}/journal")


def _generation(n: int) -> int:
    return (n - 1) // GENERATION


def _paths(entry: JournalEntry) -> Iterator[str]:
    for source, target in entry.moves:
        yield source
        yield target
    yield from entry.removes


@lru_cache
def _boot() -> str:
    """What changes whenever this machine starts; where it has no such thing, the process stands for it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"process-{os.getpid()}-{new_id()}"
