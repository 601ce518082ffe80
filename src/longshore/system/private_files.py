"""Folders and files that only this user can read.

Other users of the machine may write to the temporary folder and read whatever its mode allows. Nothing below a folder
that `is_private` accepts can be planted or read by them.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path


def user_name_suffix() -> str:
    """Return a name that differs between the users of a machine, for a folder in a place that they share."""
    if sys.platform == "win32":
        return "user"  # the temporary folder belongs to the user
    else:
        return str(os.getuid())


def is_own_directory(path: Path) -> bool:
    """Return whether `path` is a real directory (not a symbolic link to one) that belongs to this user."""
    try:
        found = path.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    if sys.platform == "win32":
        return True
    else:
        return found.st_uid == os.getuid()


def is_private(path: Path) -> bool:
    """Return whether `path` is a real directory of this user that no other user may enter or change."""
    if not is_own_directory(path):
        return False
    return sys.platform == "win32" or stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0


def only_owner_writes(file: Path) -> bool:
    """Return whether `file` belongs to this user and no other user may change it. Raise `OSError` if it is gone."""
    found = file.stat()
    if sys.platform == "win32":
        return True
    else:
        return found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) & 0o022 == 0


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, so that no other user can enter them.

    An existing folder keeps its permissions: its owner may have opened it to others.
    """
    if not folder.is_dir():
        if folder.parent != folder:
            make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def touch_private(file: Path) -> None:
    """Make an empty file that no other user can read, unless there is one. Raise `OSError` if it cannot be made."""
    with contextlib.suppress(FileExistsError):
        file.touch(mode=0o600, exist_ok=False)
