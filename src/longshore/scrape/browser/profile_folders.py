"""The folder that a browser writes to. It is removed with the browser, or by a later process if ours was killed.

All of them are in one folder of this user that other users cannot enter: the temporary folder is writable by everyone,
and a folder that another user planted there must never be followed or removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import psutil

from longshore.system.private_files import is_own_directory, is_private, user_name_suffix

_PARENT = "longshore-browsers-"
_OWNED = re.compile(r"(\d+)-")
_PROFILE = "made-by-the-driver"
_DRIVER_PROFILE = re.compile(r"playwright\w*_profile-\w+\Z")
_OLD_SECONDS = 3600.0
"""Younger folders are kept: they may belong to a container that shares the folder but not the process ids."""


def new_folder() -> str:
    """Make and return a folder for a browser of this process, after removing the folders of killed processes."""
    parent = Path(tempfile.gettempdir(), f"{_PARENT}{user_name_suffix()}")
    with contextlib.suppress(FileExistsError):
        parent.mkdir(0o700)
    if not is_private(parent):
        # Another user was first with this name, or may write to it. `mkdtemp` makes a private folder elsewhere.
        return tempfile.mkdtemp(prefix=f"{_PARENT}{os.getpid()}-")
    for folder in parent.iterdir():
        if _left_behind(folder):
            remove_folder(str(folder))
    return tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent)


def note_profile(folder: str, profile: str) -> None:
    """Record a profile that the driver made elsewhere, so that `remove_folder` removes it if the driver is killed."""
    with contextlib.suppress(OSError):
        Path(folder, _PROFILE).symlink_to(profile)


def remove_folder(folder: str) -> None:
    """Remove the folder with its contents, and the profile recorded in it. Other folders are not touched."""
    if not is_private(Path(folder)):
        return
    with contextlib.suppress(OSError):
        profile = Path(folder, _PROFILE).readlink()
        if _DRIVER_PROFILE.match(profile.name) and is_own_directory(profile):
            shutil.rmtree(profile, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _left_behind(folder: Path) -> bool:
    owner = _OWNED.match(folder.name)
    if owner is None or psutil.pid_exists(int(owner[1])):
        return False
    try:
        return time.time() - folder.lstat().st_mtime > _OLD_SECONDS
    except OSError:
        return False
