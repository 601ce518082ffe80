"""inotify: a notification from Linux when names appear in folders."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

_IN_CREATE, _IN_MOVED_TO, _IN_MOVED_FROM = 0x100, 0x80, 0x40


def watch_folders(folders: Sequence[str]) -> int | None:
    """Return a descriptor that becomes readable when a name appears in or leaves one of the folders.

    None if the system has no inotify or grants no more watches: then the folders have to be polled.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            return None
        if descriptor < 0:
            return None
        for folder in folders:
            libc.inotify_add_watch(descriptor, os.fsencode(folder), _IN_CREATE | _IN_MOVED_TO | _IN_MOVED_FROM)
        return descriptor
    else:
        return None
