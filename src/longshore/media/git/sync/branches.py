"""Which branch the queue is on, and how it moves to a new one so that history does not grow forever.

The branch `longshore` is small and permanent: it is the pointer to the branch that holds the queue. A new generation
begins with a commit that has the same files and no parent, on a new branch that no other process knows yet. One push
makes it valid: a final commit on the old branch, whose `longshore.json` names the new branch. That push is a
compare-and-swap like any other. If a worker's push comes first, the new branch is deleted and made again. After the
final commit every push to the old branch is refused, and a process that fetches it finds the name of the new branch.
Old branches are deleted one generation later; a process that was stopped in the meantime reads `longshore` again.

Generations are numbered, and a branch leads to the one with the next number or to none. `longshore` only ever changes
to a higher number, however slow the machine that writes it. So an old branch with a lower number than the one named is
never needed again, and only such branches are deleted. If `longshore` names a branch that does not exist nevertheless,
the branch in use is found among the existing ones: others lead to it, or it has commits after its first.
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
from longshore.media.git.objects.objects import MissingError, TooLargeError, new_object
from longshore.media.git.objects.tree import Tree
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.readme import README

log = logging.getLogger(__name__)

POINTER = "longshore"
"""The branch that names the branch of the queue."""
FIRST = "longshore-1"
_BRANCH = re.compile(r"longshore-(?P<number>\d{1,9})(-[0-9a-f]{6})?")
_MAX_BRANCHES = 100
"""Branches that are followed or searched at most. A queue has three or four; a hostile repository may have more."""
_FEW_COMMITS = 50
"""Commits to read one by one; to look back further, running git is faster."""


class Pointer(msgspec.Struct, kw_only=True):
    """The content of the pointer branch."""

    format: int = files.FORMAT
    branch: str


class Branches:
    """The branches of one remote. Held by the caller of every method: the push lock."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def find(self) -> tuple[str, str] | None:
        """Return the branch of the queue and its head; None if there is no queue."""
        pointer = self._mirror.fetch(POINTER)
        for _ in range(_MAX_BRANCHES):
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
        """Create an empty queue if there is none, and return its branch and head."""
        # Every process makes the same commits, so it does not matter which one comes first.
        self._mirror.push(self._first_commit(), FIRST, "")
        self._mirror.push(self._pointer_commit(FIRST, "", 0), POINTER, "")
        found = self.find()
        if found is None:
            raise QueueUnavailableError(f"'{self._shown}' did not keep the branch '{POINTER}'. Try again.")
        return found

    def follow(self, branch: str) -> tuple[str, str] | None:
        """Return the branch of the queue and its head: this branch, or the last one that it leads to.

        Return None if a branch on the way does not exist.
        """
        for _ in range(_MAX_BRANCHES):
            head = self._mirror.fetch(branch)
            if head is None:
                return None
            moved_to = self.moved_to(branch, head)
            if not moved_to:
                return branch, head
            branch = moved_to
        raise ForeignQueueError(
            f"The queue '{self._shown}' has moved over more branches than Longshore keeps. Use another repository."
        )

    def moved_to(self, branch: str, head: str) -> str:
        """Return the branch that this one leads to; "" if it is still in use."""
        meta = files.meta_of(file_of(self._mirror.objects, head, files.META) or b"")
        if meta.moved_to and not (_BRANCH.fullmatch(meta.moved_to) and _number(meta.moved_to) > _number(branch)):
            raise ForeignQueueError(
                f"The branch '{branch}' of '{self._shown}' leads to a branch that Longshore did not name."
            )
        return meta.moved_to

    def were_set_back(self, known: str, confirmed: str, head: str | None, found: tuple[str, str]) -> bool:
        """Return whether `confirmed`, a commit that was seen on the branch `known`, is no longer part of the queue.

        `head` is that of `known`, None if it is gone; `found` is the branch of the queue now, and its head. A queue
        whose branches are all gone was deleted on purpose. A later generation shares no commits with `known`.
        """
        branch, newest = found
        if head is not None or branch == known:
            return not self._descends(head or newest, confirmed)
        return bool(branch) and _number(branch) <= _number(known)

    def _descends(self, head: str, ancestor: str) -> bool:
        """Return whether `head` is `ancestor` or a later commit on top of it."""
        at = head
        for _ in range(_FEW_COMMITS):
            if at in {ancestor, ""}:
                return at == ancestor
            try:
                at = field_of(self._mirror.objects.read(at), b"parent")
            except MissingError:
                return False  # beyond the boundary of a shallow mirror
        return self._mirror.is_ancestor(ancestor, head)

    def begin_generation(self, branch: str, head: str, instant: int) -> tuple[str, str] | None:
        """Begin a new generation with the files of this head.

        Return the new branch and its head; None if another push came first.
        """
        name = f"longshore-{_number(branch) + 1}-{secrets.token_hex(3)}"
        objects = self._mirror.objects
        root = commit_of(field_of(objects.read(head), b"tree"), "", instant, f"Goes on from {branch}")
        seal = self._seal(head, name, instant)
        objects.write([root])
        self._mirror.push(root.oid, name, "")
        if not self._mirror.push(seal, branch, head):
            self._mirror.delete(name, root.oid)
            return None
        self._delete_left(self._point_at(name, instant))
        return name, root.oid

    def _point_at(self, name: str, instant: int) -> str:
        """Name this branch in the pointer, unless it names a later one. Return the branch that it names."""
        named = ""
        for _ in range(_MAX_BRANCHES):
            pointer = self._mirror.fetch(POINTER) or ""
            named = self._pointed_at(pointer) if pointer else ""
            if _number(named) >= _number(name):
                break
            if self._mirror.push(self._pointer_commit(name, pointer, instant), POINTER, pointer):
                return name
        # An old pointer is still correct: from the branch that it names, each branch leads to the next.
        return named

    def _delete_left(self, named: str) -> None:
        """Delete the sealed branches before the previous one. An unsealed one may be about to be used."""
        names = self._names()
        if named not in names:
            return  # a person deletes branches, and may have restored old ones
        for name, head, moved_to in self._ours(name for name in names if _number(name) < _number(named) - 1):
            if moved_to:
                self._mirror.delete(name, head)

    def _in_use(self, missing: str) -> tuple[str, str]:
        """Return the branch in use and its head, if the pointer names one that does not exist."""
        seen = list(self._ours(self._names()[-_MAX_BRANCHES:]))
        unsealed = {name: head for name, head, moved_to in seen if not moved_to}
        led_to = {moved_to for *_, moved_to in seen if moved_to}
        # A branch that was begun and never used is a copy: no branch leads to it, and it has only its first commit.
        grown = {name for name, head in unsealed.items() if field_of(self._mirror.objects.read(head), b"parent")}
        found = led_to & unsealed.keys() or grown or unsealed.keys()
        if len(found) == 1:
            (name,) = found
            return name, unsealed[name]
        lost = f"The branch '{POINTER}' of '{self._shown}' leads to '{missing}', which does not exist"
        if not found:
            raise ForeignQueueError(
                f"{lost}, and no other branch holds the queue. Push it again from a clone that has it, or delete the "
                f"branch '{POINTER}' to start with an empty queue."
            )
        raise ForeignQueueError(
            f"{lost}, and each of these could hold the queue: {', '.join(sorted(found))}. Check which one does, and "
            "rename the others."
        )

    def _names(self) -> list[str]:
        """Return the branches whose names have the form of a generation's, ordered by number."""
        return sorted((name for name in self._mirror.heads("longshore-*") if _BRANCH.fullmatch(name)), key=_number)

    def _ours(self, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        """Yield name, head and following branch of each of these branches that exists and is Longshore's."""
        for name in names:
            head = self._mirror.fetch(name)
            if head is None:
                continue
            try:
                yield name, head, self.moved_to(name, head)
            except (ForeignQueueError, TooLargeError) as error:
                log.warning("The branch %s of %s is not Longshore's and is ignored: %s", name, self._shown, error)

    def _first_commit(self) -> str:
        meta, readme = new_object("blob", files.written(files.Meta())), new_object("blob", README.encode())
        tree = Tree(entries={files.META: meta.oid, files.README: readme.oid})
        made = [meta, readme]
        made.append(commit_of(tree.write(made), "", 0, "An empty queue"))
        self._mirror.objects.write(made)
        return made[-1].oid

    def _seal(self, head: str, moved_to: str, instant: int) -> str:
        meta = new_object("blob", files.written(files.Meta(moved_to=moved_to)))
        tree = Tree(entries={files.META: meta.oid})
        made = [meta]
        made.append(commit_of(tree.write(made), head, instant, f"Moved to {moved_to}"))
        self._mirror.objects.write(made)
        return made[-1].oid

    def _pointer_commit(self, branch: str, parent: str, instant: int) -> str:
        text = f"# A Longshore queue\n\nIt is on the branch `{branch}`.\n"
        readme, pointer = new_object("blob", text.encode()), new_object("blob", files.written(Pointer(branch=branch)))
        tree = Tree(entries={files.META: pointer.oid, files.README: readme.oid})
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
                "repository; nothing in it was changed."
            )
        return branch

    @property
    def _shown(self) -> str:
        return self._mirror.location.shown


def _number(branch: str) -> int:
    """Return the generation of a branch; 0 if its name is not that of one."""
    found = _BRANCH.fullmatch(branch)
    return int(found["number"]) if found else 0
