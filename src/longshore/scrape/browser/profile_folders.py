"""The folder that a browser writes to. It is removed with the browser, or by a later process if ours was killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import psutil

_PREFIX = "longshore-browser-"
_OWNED = re.compile(rf"{_PREFIX}(\d+)-")
_PROFILE = "made-by-the-driver"
_OLD_SECONDS = 3600.0
"""Younger folders are kept: they may belong to a container that shares the folder but not the process ids."""


def new_folder() -> str:
    """Make and return a folder for a browser of this process, after removing the folders of killed processes."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if _left_behind(folder):
            remove_folder(str(folder))
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")


def note_profile(folder: str, profile: str) -> None:
    """Record a profile that the driver made elsewhere, so that `remove_folder` removes it if the driver is killed."""
    with contextlib.suppress(OSError):
        Path(folder, _PROFILE).symlink_to(profile)


def remove_folder(folder: str) -> None:
    """Remove the folder with its contents, and the profile recorded in it."""
    with contextlib.suppress(OSError):
        shutil.rmtree(Path(folder, _PROFILE).readlink(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _left_behind(folder: Path) -> bool:
    owner = _OWNED.match(folder.name)
    if owner is None or psutil.pid_exists(int(owner[1])):
        return False
    try:
        return time.time() - folder.stat().st_mtime > _OLD_SECONDS
    except OSError:
        return False
