"""The folders for caches: data that may be deleted at any time and is then made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_dir() -> Path:
    """Return the folder for Longshore's own caches. The variable `XDG_CACHE_HOME` counts on every system."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else user_cache_dir()) / "longshore"


def user_cache_dir() -> Path:
    """Return the folder in which programs keep caches by default, without `XDG_CACHE_HOME`."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    else:
        return Path.home() / ".cache"
