"""Which branch the queue is on, and how it moves to a new one so that history does not grow for ever.

The branch `longshore` is small and stays: it names the branch that holds the queue. A new generation begins with a
commit that has the same files and no parent, on a branch of its own that nobody knows yet. One push makes it count:
a last commit on the old branch, whose `longshore.json` says where the queue has moved to. That push is a
compare-and-swap like any other. If a worker was faster, the new branch is thrown away and made again; once it is
through, every push to the old branch is refused, and who fetches it learns where to go. Branches that were left are
deleted one generation later; who slept through that asks `longshore` again.

Generations are numbered, and a branch leads to the one with the next number or nowhere. What `longshore` names only
ever has a higher number than what it named before, however slow the machine that writes it. So a branch that was left,
with a lower number than the one named, is needed by nobody now or later, and only such branches are deleted. Where
`longshore` names a branch that is not there all the same, the branch in use is found among those that are: others lead
to it, or it has grown since it was begun.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterable, Iterator

import msgspec

from longshore.errors import ForeignQueueError, QueueUnavailableError
from longshore.media.git.objects.commit import commit_of, field_of, file_of
from longshore.media.git.objects.mirror import Mirror
from longshore.media.git.objects.objects import TooLargeError, new
from longshore.media.git.objects.tree import Tree
from longshore.media.git.state import branch_files as files

log = logging.getLogger(__name__)

POINTER = "longshore"
"""The branch that says which branch the queue is on."""
FIRST = "longshore-1"
_BRANCH = re.compile(r"longshore-(?P<number>\d{1,9})(-[0-9a-f]{6})?")
_MOST = 100
"""Branches that are followed or looked through. Ours are three or four; a hostile repository may have any number."""
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
        for _ in range(_MOST):
            if pointer is None:
                return None
            branch = self._pointed_at(pointer)
            found = self.follow(branch)
            if found is not None:
                return found
            before, pointer = pointer, self._mirror.fetch(POINTER)
            if pointer == before:
                return self._in_use(branch)
        raise QueueUnavailableError(f"The branches of '{self._shown}' change too fast to be followed. Try again.")

    def make(self) -> tuple[str, str]:
        """Make an empty queue where there is none, and find it."""
        # The same commits whoever makes them, so it does not matter who comes first.
        self._mirror.push(self._first_commit(), FIRST, "")
        self._mirror.push(self._pointer_commit(FIRST, "", 0), POINTER, "")
        found = self.find()
        if found is None:
            raise QueueUnavailableError(f"'{self._shown}' did not keep the branch '{POINTER}'. Try again.")
        return found

    def follow(self, branch: str) -> tuple[str, str] | None:
        """The branch that the queue is on now, which is this one or one that follows it, and its head.

        None where one on the way is not there.
        """
        for _ in range(_MOST):
            head = self._mirror.fetch(branch)
            if head is None:
                return None
            moved_to = self.moved_to(branch, head)
            if not moved_to:
                return branch, head
            branch = moved_to
        raise ForeignQueueError(f"The queue '{self._shown}' has moved more often than any queue of ours.")

    def moved_to(self, branch: str, head: str) -> str:
        """The branch that follows this one with this head; empty where it is still in use."""
        meta = files.meta_of(file_of(self._mirror.objects, head, files.META) or b"")
        if meta.moved_to and not (_BRANCH.fullmatch(meta.moved_to) and _number(meta.moved_to) > _number(branch)):
            raise ForeignQueueError(
                f"The branch '{branch}' of '{self._shown}' leads to a branch of a name that none of ours has."
            )
        return meta.moved_to

    def renew(self, branch: str, head: str, instant: int) -> tuple[str, str] | None:
        """Begin a new generation with what is at this head. The new branch and its head; None if another was faster."""
        name = f"longshore-{_number(branch) + 1}-{secrets.token_hex(3)}"
        objects = self._mirror.objects
        root = commit_of(field_of(objects.read(head), b"tree"), "", instant, f"Goes on from {branch}")
        seal = self._seal(head, name, instant)
        objects.write([root])
        self._mirror.push(root.oid, name, "")
        if not self._mirror.push(seal, branch, head):
            self._mirror.delete(name, root.oid)
            return None
        self._clear_away(self._point_at(name, instant))
        return name, root.oid

    def _point_at(self, name: str, instant: int) -> str:
        """Name this branch in the pointer, unless a later one is named by now. Returns which is."""
        named = ""
        for _ in range(_MOST):
            pointer = self._mirror.fetch(POINTER) or ""
            named = self._pointed_at(pointer) if pointer else ""
            if _number(named) >= _number(name):
                break
            if self._mirror.push(self._pointer_commit(name, pointer, instant), POINTER, pointer):
                return name
        # Even one that was not moved is right: from the branch that it names, each leads to the next.
        return named

    def _clear_away(self, named: str) -> None:
        """Delete branches that were left before the last one was. One that nobody has left may be about to be used."""
        names = self._names()
        if named not in names:
            return  # somebody else takes branches away, and may have brought back old ones
        for name, head, moved_to in self._seen(name for name in names if _number(name) < _number(named) - 1):
            if moved_to:
                self._mirror.delete(name, head)

    def _in_use(self, missing: str) -> tuple[str, str]:
        """The branch in use and its head, where the pointer leads to one that is not there."""
        seen = list(self._seen(self._names()[-_MOST:]))
        unsealed = {name: head for name, head, moved_to in seen if not moved_to}
        led_to = {moved_to for *_, moved_to in seen if moved_to}
        # One that was begun and never used is a copy that nobody leads to, and that has no commit after its first.
        grown = {name for name, head in unsealed.items() if field_of(self._mirror.objects.read(head), b"parent")}
        found = led_to & unsealed.keys() or grown or unsealed.keys()
        if len(found) == 1:
            (name,) = found
            return name, unsealed[name]
        lost = f"The branch '{POINTER}' of '{self._shown}' leads to '{missing}', which is not there"
        if not found:
            raise ForeignQueueError(
                f"{lost}, and no other branch holds the queue. Push it again from a clone that has it, or delete the "
                f"branch '{POINTER}' to begin with an empty queue."
            )
        raise ForeignQueueError(
            f"{lost}, and each of these could hold the queue: {', '.join(sorted(found))}. Look which one does, and "
            "rename the others."
        )

    def _names(self) -> list[str]:
        """The branches with names like ours, by their numbers."""
        return sorted((name for name in self._mirror.heads("longshore-*") if _BRANCH.fullmatch(name)), key=_number)

    def _seen(self, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        """Those of these branches that are there and ours: name, head, and the branch that follows."""
        for name in names:
            head = self._mirror.fetch(name)
            if head is None:
                continue
            try:
                yield name, head, self.moved_to(name, head)
            except (ForeignQueueError, TooLargeError) as error:
                log.warning("The branch %s of %s is none of ours: %s", name, self._shown, error)

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


def _number(branch: str) -> int:
    """Which generation a branch is."""
    found = _BRANCH.fullmatch(branch)
    return int(found["number"]) if found else 0
