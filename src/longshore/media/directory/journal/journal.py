"""The journal: a sequence of changes, each committed by one `link(2)`. It is the authority; the folders follow it.

Authority
    A change is a file `journal/GENERATION/NUMBER.json`. It is committed at the moment its file is linked to that name.
    If two processes try the same number, one gets EEXIST, reads the other's change, and tries the next number. So every
    change, of one job or of ten thousand, is all or nothing, and all changes have one order.

Invariants
    1. A process links a change only after it has read and applied all changes before it, so the change was decided on
       exactly the state that it follows.
    2. All new content is in the change's own folder `staging/ID/`, synced, before the link. After the link only renames
       and unlinks remain. Each names a path that is never used twice (see `layout`), so it works exactly once, in any
       process and at any later time: a process that resumes after an hour finds nothing left to do.
    3. A change has been applied when its folder in `staging/` is gone. A process that finds a change that was not
       applied applies it. So a process that dies after the link has made the whole change, and one that dies before
       the link has changed nothing.
    4. A call returns only after the link was synced.

Generations
    After every `GENERATION` changes a new folder begins, with the current head in `base.json`, so that opening reads
    little and old changes can be removed. The next folder is prepared inside the current one and put in place by a
    rename, which works once; an old folder is moved away as a whole. Hence a late process can neither link into an old
    generation nor bring an old folder back. Before a generation is moved away, all folders that its changes touched are
    synced.

Power cut
    The journal and all staged content are synced; renames are not. The first process that opens the queue after the
    machine has booted applies all remaining entries once more, in order.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TypeVar

from longshore.errors import QueueError, QueueUnavailableError
from longshore.media.directory.files import disk
from longshore.media.directory.files.layout import Slot
from longshore.media.directory.files.moved_jobs import MovedJobs
from longshore.media.directory.files.quarantine import make_way, move_to_rejected
from longshore.media.directory.journal.entry import JournalEntry, JournalHead, new_id
from longshore.media.directory.journal.generations import Generations, begins_generation, generation_of
from longshore.media.directory.journal.pending_change import PendingChange

STATE_CHANGE = "note"
"""The `what` of a change that writes shared state."""
HELP_DELAYS = (0.0005, 0.001, 0.002)
"""Seconds that the committing process gets to apply its change before others help: helping slows down both."""

T = TypeVar("T")

_UNUSABLE_NAME = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
"""Errors for a name that the volume can never give to a file."""


class Journal:
    """The journal of the queue in the folder `root`. Used by one thread at a time."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.uuid = ""
        """The uuid of the queue; `folder.uuid_of` reads it when the queue is opened."""
        self.head = JournalHead()
        self.due: dict[str, float] = {}
        """Cache: the instant at which the first delayed job of a lane is due. Dropped when the lane changes."""
        self.miscounted = False
        """A file that the counters include was rejected: counters and keys must be repaired."""
        self.state_changes = 0
        """The number of changes of shared state that were read or may have been missed."""
        self.emptied: set[str] = set()
        """Folders of ready jobs that may be empty; `listing.remove_emptied` removes them."""
        self.lists_fresh = False
        """Whether listings must prove that they are not outdated; `listing.fresh` sets it."""
        self._generations = Generations(root)
        self._unapplied: list[JournalEntry] = []
        self._tracked: list[MovedJobs] = []

    def open(self) -> None:
        """Read the head. After a boot, also apply all entries again."""
        self._reload()
        marker = f"{self.root}/boots/{_boot()}"
        if not os.path.lexists(marker):
            self._replay()
            disk.write_hint(marker, b"")

    def path(self, relative: str) -> str:
        """Return the absolute path of a path in the queue."""
        return f"{self.root}/{relative}"

    def refresh(self) -> JournalHead:
        """Read the entries since the last call, and return the head. Costs one system call if there are none."""
        looked = -1
        while True:
            n = self.head.n
            try:
                data = disk.read(self._generations.file(n + 1))
            except FileNotFoundError:
                folders = [self._generations.folder(generation_of(each)) for each in (n + 1, max(n, 1))]
                if (n == 0 and any(map(os.path.lexists, folders))) or os.path.lexists(self._generations.file(n)):
                    return self.head
                if not any(map(os.path.lexists, folders)):
                    self._reload()
                elif looked == n:
                    raise self._set_back() from None
                # Look again: other processes may have begun and retired a generation between two of the calls above.
                looked = n
                continue
            entry = self._generations.parsed(data, n + 1)
            if entry.after and self.head.id not in {"", entry.after}:
                raise self._set_back()
            self._add(entry)

    def changed(self, n: int) -> bool:
        """Return whether there is an entry after number `n`. Costs two system calls; may run on any thread."""
        return (
            self.head.n > n
            or os.path.lexists(self._generations.file(n + 1))
            or not os.path.lexists(self._generations.folder(generation_of(max(n, 1))))
        )

    def watched(self, n: int) -> list[str]:
        """Return the folders in which the entry after number `n` will appear."""
        return [self.path("journal"), self._generations.folder(generation_of(n + 1))]

    def catch_up(self) -> JournalHead:
        """Read new entries and apply those that are not applied yet, so that the folders match the returned head."""
        self.refresh()
        for entry in self._unapplied:
            if self._is_unapplied(entry):
                self._apply(entry)
        self._unapplied.clear()
        return self.head

    def commit(self, change: PendingChange) -> bool:
        """Commit and apply the change. Return False if another change came first since `catch_up`: decide again."""
        entry = change.entry(self.head)
        if begins_generation(entry.n):
            self._generations.begin(generation_of(entry.n), self.head)
        target = self._generations.file(entry.n)
        # Under contention another change is usually there already; this check saves the sync.
        if os.path.lexists(target):
            return False
        change.write(entry)
        change.committed = None
        try:
            os.link(change.file, target)
        except FileExistsError:
            # On NFS the link may succeed, its reply get lost, and the repeated request fail with EEXIST.
            if not os.path.samefile(change.file, target):  # noqa: PTH121
                change.committed = False
                return False
        except FileNotFoundError:
            change.committed = False
            if not os.path.lexists(change.file):
                raise QueueUnavailableError(
                    "This process was stopped for too long, and another one removed its uncommitted change. Try again."
                ) from None
            return False
        change.committed = True
        disk.sync_folder(os.path.dirname(target))  # noqa: PTH120
        self._add(entry)
        # If this fails, the entry stays in `_unapplied`, and the next `catch_up` continues with it.
        complete = self._apply(entry)
        self._unapplied.remove(entry)
        if not complete:
            raise QueueError(
                f"The volume under the queue '{self.root}' cannot store a file under the name it needs. The file is "
                "in rejected/, with the reason beside it. Use a volume that allows longer names."
            )
        return True

    def transact(self, what: str, decide: Callable[[PendingChange, JournalHead], T]) -> T:
        """Commit the change that `decide` fills, and return its answer.

        When another change comes first, `decide` is called again with a restarted change and the new head; files that
        it staged before are still there. It must have no effect other than on the change.
        """
        with PendingChange(self.root, what) as change:
            for tries in count():
                head = self.catch_up()
                change.restart(head)
                answer = decide(change, head)
                if change.is_empty or self.commit(change):
                    return answer
                # Random backoff, so that the processes that collided do not collide again.
                time.sleep(random.uniform(0, min(0.02, 0.0005 * 2**tries)))  # noqa: S311
        raise AssertionError("unreachable")

    @contextmanager
    def track_moves(self) -> Iterator[MovedJobs]:
        """Track where jobs move until the end of the block, as seen by calls of `refresh` and `catch_up` in it."""
        tracked = MovedJobs()
        self._tracked.append(tracked)
        try:
            yield tracked
        finally:
            self._tracked.remove(tracked)

    def sweep(self, name: str) -> None:
        """Remove what a process left in staging/`name`. Safe even if that process is alive and was only stopped.

        The entry is renamed first, so that it can no longer be linked; if it was linked before, it is applied.
        """
        folder = self.path(f"staging/{name}")
        if os.path.isdir(folder):  # noqa: PTH112
            disk.move(f"{folder}/entry.json", f"{folder}/swept.json")
            self.catch_up()
        disk.remove_tree(folder)

    def _add(self, entry: JournalEntry) -> None:
        self.head.add(entry)
        self._unapplied.append(entry)
        self.state_changes += entry.what == STATE_CHANGE
        for lane, delta in entry.deltas.items():
            if delta[Slot.DELAYED]:
                self.due.pop(lane, None)
        for tracked in self._tracked:
            tracked.follow(entry)

    def _is_unapplied(self, entry: JournalEntry) -> bool:
        """Return whether an entry still has to be applied, after its process has had `HELP_DELAYS` to do it."""
        folder = self.path(f"staging/{entry.id}")
        for pause in HELP_DELAYS:
            if not os.path.lexists(folder):
                return False
            time.sleep(pause)
        return os.path.lexists(folder)

    def _apply(self, entry: JournalEntry) -> bool:
        """Do the moves and removals of an entry. Several processes may do so at once; each step works for one of them.

        Return False if this volume can never do one of the moves; that file is rejected.
        """
        complete = True
        for source, target in entry.moves:
            try:
                self._move(source, target)
            except OSError as error:
                if error.errno not in _UNUSABLE_NAME:
                    raise
                # Left in place, this move would stop every process forever.
                self._give_up(source, target, error)
                complete = False
        for path in entry.removes:
            disk.remove(self.path(path))
        disk.remove_tree(self.path(f"staging/{entry.id}"))
        return complete

    def _move(self, source: str, target: str) -> None:
        try:
            disk.move(self.path(source), self.path(target))
        except (NotADirectoryError, IsADirectoryError, FileExistsError):
            make_way(self.root, target)
            disk.move(self.path(source), self.path(target))

    def _give_up(self, source: str, target: str, error: OSError) -> None:
        """Reject a file that can never be moved to its target. Processes that try later find it gone."""
        if os.path.lexists(self.path(source)):
            move_to_rejected(self.root, source, f"It cannot be moved to its path ({error.strerror}): {target}")
            self.miscounted = True

    def _reload(self) -> None:
        """Start from the newest generation: after opening, or when entries that were not read yet are gone."""
        self.head = self._generations.newest_head()
        self.due.clear()
        self.state_changes += 1
        self._unapplied.clear()
        for tracked in self._tracked:
            tracked.lost = True
        self.refresh()

    def _replay(self) -> None:
        """Apply all remaining entries in order, including those that were applied before."""
        for generation in self._generations.numbers():
            for entry in self._generations.entries(generation):
                self._apply(entry)

    def _set_back(self) -> QueueError:
        return QueueError(
            f"The queue '{self.root}' was set back to an earlier state while it was in use, for example by restoring a "
            "backup. Jobs that were finished since then will be done again. Start again to continue with that state."
        )


@lru_cache
def _boot() -> str:
    """Return an id of the machine's current boot; if the machine has none, an id of this process."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"process-{os.getpid()}-{new_id()}"
