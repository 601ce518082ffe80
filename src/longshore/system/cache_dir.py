"""The folders of this user: for caches, which may be deleted at any time and are then made again, and for choices."""

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


def config_dir() -> Path:
    """Return the folder for what this user has decided. The variable `XDG_CONFIG_HOME` counts on every system."""
    named = os.environ.get("XDG_CONFIG_HOME")
    return (Path(named) if named else _user_config_dir()) / "longshore"


def _user_config_dir() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    else:
        return Path.home() / ".config"
