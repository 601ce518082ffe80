"""Commits, as far as we need them: how one is written, and what is read of one."""

from __future__ import annotations

from longshore.media.git.objects.objects import New, Objects, new
from longshore.media.git.objects.tree import Tree


def commit_of(tree: str, parent: str, instant: int, message: str, by: str = "nobody") -> New:
    """A commit. Its author is the machine; which worker did what is in the files."""
    author = f"Longshore <{by}>"
    lines = [f"tree {tree}"]
    lines += [f"parent {parent}"] if parent else []
    lines += [f"author {author} {instant} +0000", f"committer {author} {instant} +0000", "", message, ""]
    return new("commit", "\n".join(lines).encode())


def field_of(commit: bytes, name: bytes) -> str:
    """The value of a commit's first field of this name; empty where it has none."""
    for line in commit.split(b"\n\n", 1)[0].splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return value.decode()
    return ""


def file_of(objects: Objects, commit: str, name: str) -> bytes | None:
    """The content of a file at the top of a commit."""
    oid = Tree(field_of(objects.read(commit), b"tree")).file(name, objects)
    return None if oid is None else objects.read(oid)
