"""Trees of a commit as immutable values: read on first use, and shared between versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from longshore.media.git.objects.objects import NewObject, Objects, new_object

_FILE, _FOLDER = b"100644", b"40000"
MAX_DEPTH = 5
"""Longshore makes no deeper folders, and reads none: a hostile repository may be endlessly deep."""


class Foreign(NamedTuple):
    """An entry that is neither a file nor a folder, such as a symlink or submodule. It is kept and never read."""

    mode: bytes
    oid: str


Entry: TypeAlias = "Tree | str | Foreign"


class TreeChange(NamedTuple):
    """A file that differs between two trees: its blobs, or None if the tree does not have it."""

    path: str
    before: str | None
    after: str | None


class Tree:
    """One folder. `oid` is None until the tree is written."""

    __slots__ = ("_entries", "oid")

    def __init__(self, oid: str | None = None, entries: dict[str, Entry] | None = None) -> None:
        self.oid = oid
        self._entries = entries if oid is not None or entries is not None else {}

    def entries(self, objects: Objects) -> dict[str, Entry]:
        """Return its entries by name: a folder, the oid of a file, or something foreign."""
        if self._entries is None:
            assert self.oid is not None  # noqa: S101 - a tree without an oid has entries
            self._entries = _parsed(objects.read(self.oid))
        return self._entries

    def file(self, name: str, objects: Objects) -> str | None:
        """Return the oid of the file with this name; None if there is none."""
        found = self.entries(objects).get(name)
        return found if isinstance(found, str) else None

    def folder(self, name: str, objects: Objects) -> Tree:
        """Return the folder with this name, or an empty one."""
        found = self.entries(objects).get(name)
        return found if isinstance(found, Tree) else Tree()

    def edited(self, changes: Mapping[str, str | None], objects: Objects) -> Tree:
        """Return a tree with these paths set to blobs, or removed if None. Folders that become empty are removed."""
        return self._edited([(tuple(path.split("/")), oid) for path, oid in changes.items()], objects)

    def _edited(self, changes: Iterable[tuple[tuple[str, ...], str | None]], objects: Objects) -> Tree:
        entries = dict(self.entries(objects))
        deeper: defaultdict[str, list[tuple[tuple[str, ...], str | None]]] = defaultdict(list)
        for (name, *rest), oid in changes:
            if rest:
                deeper[name].append((tuple(rest), oid))
            elif oid is None:
                entries.pop(name, None)
            else:
                entries[name] = oid
        for name, below in deeper.items():
            found = entries.get(name)
            folder = (found if isinstance(found, Tree) else Tree())._edited(below, objects)
            if folder._entries:
                entries[name] = folder
            else:
                entries.pop(name, None)
        return Tree(entries=entries)

    def write(self, out: list[NewObject]) -> str:
        """Return the tree's oid; appends every tree object that is not written yet to `out`."""
        if self.oid is None:
            rows = []
            for name, entry in (self._entries or {}).items():
                if isinstance(entry, Tree):
                    # Git sorts folders as if their names ended in a slash.
                    rows.append((f"{name}/", name, _FOLDER, entry.write(out)))
                elif isinstance(entry, Foreign):
                    rows.append((name, name, entry.mode, entry.oid))
                else:
                    rows.append((name, name, _FILE, entry))
            rows.sort(key=lambda row: row[0].encode(errors="surrogateescape"))
            content = b"".join(
                b"%s %s\0%s" % (mode, name.encode(errors="surrogateescape"), bytes.fromhex(oid))
                for _, name, mode, oid in rows
            )
            made = new_object("tree", content)
            out.append(made)
            self.oid = made.oid
        return self.oid

    def changes(self, after: Tree, objects: Objects, prefix: str = "", depth: int = 0) -> Iterator[TreeChange]:
        """Yield the files that differ. Makes both trees share equal subtrees, so that each is read only once."""
        if self is after or (self.oid is not None and self.oid == after.oid) or depth == MAX_DEPTH:
            return
        ours, theirs = self.entries(objects), after.entries(objects)
        for name in ours.keys() | theirs.keys():
            old, young = ours.get(name), theirs.get(name)
            if old == young:
                continue
            if isinstance(old, Tree) and isinstance(young, Tree) and old.oid is not None and old.oid == young.oid:
                theirs[name] = old
                continue
            path = f"{prefix}{name}"
            if isinstance(old, Tree) or isinstance(young, Tree):
                folders = [entry if isinstance(entry, Tree) else Tree() for entry in (old, young)]
                yield from folders[0].changes(folders[1], objects, f"{path}/", depth + 1)
            before, later = (entry if isinstance(entry, str) else None for entry in (old, young))
            if before is not None or later is not None:
                yield TreeChange(path, before, later)


def _parsed(content: bytes) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    at = 0
    while at < len(content):
        space, end = content.index(b" ", at), content.index(b"\0", at)
        mode, name = content[at:space], content[space + 1 : end].decode(errors="surrogateescape")
        oid = content[end + 1 : end + 21].hex()
        at = end + 21
        if mode == _FOLDER:
            entries[name] = Tree(oid)
        elif mode in {_FILE, b"100755", b"100664"}:
            entries[name] = oid
        else:
            entries[name] = Foreign(mode, oid)
    return entries
