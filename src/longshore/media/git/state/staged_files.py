"""The files that operations have changed since the last commit, as git's staging area holds them."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from longshore.media.git.objects.objects import NewObject, Objects, TooLargeError, new_object
from longshore.media.git.objects.tree import Tree
from longshore.media.git.state import branch_files as files

log = logging.getLogger(__name__)
T = TypeVar("T")


class StagedFiles:
    """Changed files by path, and their content by object id."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.changes: dict[str, str | None] = {}
        """The object id of each changed file; None if it is removed."""
        self._blobs: dict[str, NewObject] = {}

    def write(self, path: str, content: bytes) -> str:
        """Write a file, and return its object id."""
        oid = self.changes[path] = self.blob(content)
        return oid

    def blob(self, content: bytes) -> str:
        """Return the object id of new content, which a file will have."""
        made = new_object("blob", content)
        self._blobs[made.oid] = made
        return made.oid

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.changes[path] = None

    def read(self, oid: str) -> bytes:
        """Return the content of an object, staged or in the repository. Raises `TooLargeError`."""
        written = self._blobs.get(oid)
        return written.data if written else self._objects.read(oid)

    def decoded(self, oid: str, kind: type[T], path: str) -> T | None:
        """Return the content of a file; None if it cannot be decoded, which is logged."""
        try:
            return files.decoded(self.read(oid), kind)
        except (msgspec.DecodeError, TooLargeError) as error:
            log.warning("A file of the queue cannot be decoded: %s: %s", path[:200], error)
            return None

    def commit(self, tree: Tree) -> tuple[Tree, list[NewObject]]:
        """Return `tree` with the changes, and the new objects. Nothing is staged afterwards."""
        edited = tree.edited(self.changes, self._objects)
        made = list(self._blobs.values())
        edited.write(made)
        self.changes, self._blobs = {}, {}
        return edited, made
