"""Writes commits, and reads their fields and files."""

from __future__ import annotations

from longshore.media.git.objects.objects import NewObject, Objects, new_object
from longshore.media.git.objects.tree import Tree


def commit_of(tree: str, parent: str, instant: int, message: str, by: str = "nobody") -> NewObject:
    """Return a commit. Its author is the machine; the files record which worker did what."""
    author = f"Longshore <{by}>"
    lines = [f"tree {tree}"]
    lines += [f"parent {parent}"] if parent else []
    lines += [f"author {author} {instant} +0000", f"committer {author} {instant} +0000", "", message, ""]
    return new_object("commit", "\n".join(lines).encode())


def field_of(commit: bytes, name: bytes) -> str:
    """Return the value of a commit's first field of this name; "" if it has none."""
    for line in commit.split(b"\n\n", 1)[0].splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return value.decode()
    return ""


def file_of(objects: Objects, commit: str, name: str) -> bytes | None:
    """Return the content of a file in the root tree of a commit; None if there is no such file."""
    oid = Tree(field_of(objects.read(commit), b"tree")).file(name, objects)
    return None if oid is None else objects.read(oid)
