"""Moves foreign and damaged files to rejected/, each with the reason beside it, so that they stop no process."""

from __future__ import annotations

import os

import msgspec

from longshore.media.directory.files import disk
from longshore.media.directory.files.rejected import FOUND_AT, REASON, RUN, report
from longshore.media.directory.journal.entry import new_id

NOT_OURS = "Only Longshore puts files here. To add a job, submit it."
NO_NAME = "Its name does not have the form of a job's file name."


def move_to_rejected(root: str, path: str, reason: str) -> None:
    """Move a file or folder to rejected/, and write the reason beside it."""
    target = f"{root}/rejected/{new_id()}~{path.rpartition('/')[2][:150]}"
    disk.make_folder(f"{root}/rejected")
    disk.write(f"{target}{REASON}", reason_text(path, reason))
    if disk.move(f"{root}/{path}", target):
        report(path, reason)
    else:
        disk.remove(f"{target}{REASON}")


def make_way(root: str, path: str) -> None:
    """Move to rejected/ whatever is in the way of a job's file or of a folder above it."""
    folder = ""
    for part in path.split("/")[:-1]:
        folder += f"{part}/"
        if os.path.lexists(f"{root}/{folder[:-1]}") and not os.path.isdir(f"{root}/{folder[:-1]}"):  # noqa: PTH112
            move_to_rejected(root, folder[:-1], NOT_OURS)
    if os.path.isdir(f"{root}/{path}"):  # noqa: PTH112
        move_to_rejected(root, path, NOT_OURS)


def reason_text(path: str, reason: str, run: str = "") -> bytes:
    """Return the text that is written beside a rejected file; `run` is the run of its job, if it is known."""
    text = f"{reason}\n{FOUND_AT}{path}\n"
    return (text + f"{RUN}{msgspec.json.encode(run).decode()}\n" if run else text).encode(errors="backslashreplace")
