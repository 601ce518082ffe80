"""Setting aside what does not belong: into rejected/, with the reason beside it. It stops nobody."""

from __future__ import annotations

import os

from longshore.media.directory.files import disk
from longshore.media.directory.files.rejected import REASON, tell
from longshore.media.directory.journal.entry import new_id

NOT_OURS = "Only Longshore puts files here. To add a job, submit it."
NO_NAME = "Its name is not one that Longshore gives to a job's file."


def set_aside(root: str, path: str, reason: str) -> None:
    """Move something that is none of ours into rejected/, with the reason beside it."""
    target = f"{root}/rejected/{new_id()}~{path.rpartition('/')[2][:150]}"
    disk.make_folder(f"{root}/rejected")
    disk.write(f"{target}{REASON}", reason_text(path, reason))
    if disk.move(f"{root}/{path}", target):
        tell(path, reason)
    else:
        disk.remove(f"{target}{REASON}")


def make_way(root: str, path: str) -> None:
    """Set aside whatever lies where a job's file, or a folder above it, belongs."""
    folder = ""
    for part in path.split("/")[:-1]:
        folder += f"{part}/"
        if os.path.lexists(f"{root}/{folder[:-1]}") and not os.path.isdir(f"{root}/{folder[:-1]}"):  # noqa: PTH112
            set_aside(root, folder[:-1], NOT_OURS)
    if os.path.isdir(f"{root}/{path}"):  # noqa: PTH112
        set_aside(root, path, NOT_OURS)


def reason_text(path: str, reason: str) -> bytes:
    """What is written beside a file that was set aside."""
    return f"{reason}\nIt was found at {path}\n".encode(errors="backslashreplace")
