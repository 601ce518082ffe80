"""Which branch the queue is on, and how it moves to a new one so that history does not grow for ever.

The branch `longshore` is small and stays: it names the branch that holds the queue. A new generation begins with a
commit that has the same files and no parent, on a branch of its own that nobody knows yet. One push makes it count:
a last commit on the old branch, whose `longshore.json` says where the queue has moved to. That push is a
compare-and-swap like any other. If a worker was faster, the new branch is thrown away and made again; once it is
through, every push to the old branch is refused, and who fetches it learns where to go. Branches that were left are
deleted one generation later; who slept through that asks `longshore` again.
"""

from __future__ import annotations

import re
import secrets

import msgspec

from longshore.errors import ForeignQueueError, QueueUnavailableError
from longshore.media.git import record as files
from longshore.media.git.commit import commit_of, field_of, file_of
from longshore.media.git.mirror import Mirror
from longshore.media.git.objects import new
from longshore.media.git.tree import Tree

POINTER = "longshore"
"""The branch that says which branch the queue is on."""
FIRST = "longshore-1"
_BRANCH = re.compile(r"longshore-(?P<number>\d{1,9})(-[0-9a-f]{6})?")
_README = """# A Longshore queue

This branch is written by Longshore workers; it has nothing to do with the other branches of the repository.
One JSON file is one job, and its folder says how it stands:

- `available_work/` waits for its first attempt, `retry_queue/` for another one
- `active_work/` is in a worker's hands, in a folder for each worker
- `completed_work/`, `failed_work/`, `cancelled_work/` are finished; `archive/` holds old ones, packed

Look as you like, and do not edit: every file here is counted somewhere.
"""


class Pointer(msgspec.Struct, kw_only=True):
    """What the pointer branch says."""

    format: int = files.FORMAT
    branch: str


class Branches:
    """The branches of one remote. Every method is called with the push lock held."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def find(self) -> tuple[str, str] | None:
        """The branch the queue is on, and its head; None where there is no queue."""
        pointer = self._mirror.fetch(POINTER)
        return None if pointer is None else self.follow(self._pointed_at(pointer))

    def make(self) -> tuple[str, str]:
        """Make an empty queue where there is none, and find it."""
        # The same commits whoever makes them, so it does not matter who comes first.
        self._mirror.push(self._first_commit(), FIRST, "")
        self._mirror.push(self._pointer_commit(FIRST, "", 0), POINTER, "")
        found = self.find()
        if found is None:
            raise QueueUnavailableError(f"'{self._shown}' did not keep the branch '{POINTER}'. Try again.")
        return found

    def follow(self, branch: str) -> tuple[str, str]:
        """The branch that the queue is on now, which is this one or one that follows it; and its head."""
        for _ in range(100):
            head = self._mirror.fetch(branch)
            if head is None:
                break
            moved_to = self.moved_to(head)
            if not moved_to:
                return branch, head
            branch = moved_to
        raise ForeignQueueError(
            f"The branch '{POINTER}' of '{self._shown}' leads to '{branch}', which is not there. "
            f"Delete the branch '{POINTER}' to begin with an empty queue."
        )

    def moved_to(self, head: str) -> str:
        """The branch that follows the one with this head; empty where it is still in use."""
        meta = files.meta_of(file_of(self._mirror.objects, head, files.META) or b"")
        if meta.moved_to and not _BRANCH.fullmatch(meta.moved_to):
            raise ForeignQueueError(f"The queue '{self._shown}' has moved to a branch of a name that none of ours has.")
        return meta.moved_to

    def renew(self, branch: str, head: str, instant: int) -> tuple[str, str] | None:
        """Begin a new generation with what is at this head. The new branch and its head; None if another was faster."""
        found = _BRANCH.fullmatch(branch)
        name = f"longshore-{int(found['number']) + 1 if found else 1}-{secrets.token_hex(3)}"
        objects = self._mirror.objects
        root = commit_of(field_of(objects.read(head), b"tree"), "", instant, f"Goes on from {branch}")
        seal = self._seal(head, name, instant)
        objects.write([root])
        self._mirror.push(root.oid, name, "")
        if not self._mirror.push(seal, branch, head):
            self._mirror.delete(name, root.oid)
            return None
        pointer = self._mirror.fetch(POINTER) or ""
        # Where this is refused another has moved the pointer further; the branch that was left leads on all the same.
        if self._mirror.push(self._pointer_commit(name, pointer, instant), POINTER, pointer):
            self._clear_away(keep={POINTER, branch, name})
        return name, root.oid

    def _clear_away(self, keep: set[str]) -> None:
        """Delete branches that were left a generation ago. One that nobody has left may be about to be used."""
        for name, head in self._mirror.heads("longshore-*").items():
            if (
                name not in keep
                and _BRANCH.fullmatch(name)
                and self._mirror.fetch(name) == head
                and self.moved_to(head)
            ):
                self._mirror.delete(name, head)

    def _first_commit(self) -> str:
        meta, readme = new("blob", files.written(files.Meta())), new("blob", _README.encode())
        tree = Tree(entries={files.META: meta.oid, "README.md": readme.oid})
        made = [meta, readme]
        made.append(commit_of(tree.write(made), "", 0, "An empty queue"))
        self._mirror.objects.write(made)
        return made[-1].oid

    def _seal(self, head: str, moved_to: str, instant: int) -> str:
        meta = new("blob", files.written(files.Meta(moved_to=moved_to)))
        tree = Tree(entries={files.META: meta.oid})
        made = [meta]
        made.append(commit_of(tree.write(made), head, instant, f"Moved to {moved_to}"))
        self._mirror.objects.write(made)
        return made[-1].oid

    def _pointer_commit(self, branch: str, parent: str, instant: int) -> str:
        text = f"# A Longshore queue\n\nIt is on the branch `{branch}`.\n"
        readme, pointer = new("blob", text.encode()), new("blob", files.written(Pointer(branch=branch)))
        tree = Tree(entries={files.META: pointer.oid, "README.md": readme.oid})
        made = [readme, pointer]
        made.append(commit_of(tree.write(made), parent, instant, f"The queue is on {branch}"))
        self._mirror.objects.write(made)
        return made[-1].oid

    def _pointed_at(self, commit: str) -> str:
        content = file_of(self._mirror.objects, commit, files.META)
        try:
            branch = files.decoded(content or b"", Pointer).branch
        except msgspec.DecodeError:
            branch = ""
        if not _BRANCH.fullmatch(branch):
            raise ForeignQueueError(
                f"The branch '{POINTER}' of '{self._shown}' is not one of Longshore's. Rename it, or use another "
                "repository; it was left as it is."
            )
        return branch

    @property
    def _shown(self) -> str:
        return self._mirror.location.shown
