"""The file system: whole files or none, synced; and its errors in the words of `longshore.errors`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from longshore.errors import (
    ForeignQueueError,
    QueueError,
    QueueFullError,
    QueueUnavailableError,
    ReadOnlyQueueError,
)
from longshore.system import descriptors
from longshore.system.descriptors import open_no_follow

SYNCED_AT_ONCE = 16
OPEN_AT_ONCE = 200
"""Files that wait for their sync together; far below the 1,024 open files a process usually may have."""


def read(path: str) -> bytes:
    """All of a file."""
    fd = open_no_follow(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        data = os.read(fd, size)
        # One call is enough but for files of gigabytes and for volumes that answer in parts.
        while len(data) < size and (part := os.read(fd, size - len(data))):
            data += part
        return data
    finally:
        os.close(fd)


def write(path: str, data: bytes) -> None:
    """A file with this content, on the disk when the call returns. Its folder is not synced."""
    write_all([(path, data)])


def write_all(files: Sequence[tuple[str, bytes]]) -> None:
    """Files with their contents, all on the disk when the call returns. Their folders are not synced.

    Written first and synced after, many at once.
    """
    for first in range(0, len(files), OPEN_AT_ONCE):
        fds: list[int] = []
        try:
            for path, data in files[first : first + OPEN_AT_ONCE]:
                fds.append(_open_and_write(path, data))
            _sync_all(fds)
        finally:
            for fd in fds:
                os.close(fd)


def rewrite(path: str, data: bytes) -> None:
    """Replace the content of a file that is there, on the disk when the call returns. Raises if it is gone."""
    fd = open_no_follow(path, os.O_WRONLY | os.O_TRUNC)
    try:
        _write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_hint(path: str, data: bytes) -> None:
    """A file with this content, not synced: what it says is of no worth after a power cut."""
    os.close(_open_and_write(path, data))


def _open_and_write(path: str, data: bytes) -> int:
    fd = open_no_follow(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        _write(fd, data)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _sync_all(fds: Sequence[int]) -> None:
    def sync(share: Sequence[int]) -> None:
        for fd in share:
            os.fsync(fd)

    if len(fds) <= 2:
        sync(fds)
        return
    # Asked for side by side, the file system writes its log once for many: ten times as fast as one after another.
    threads = min(SYNCED_AT_ONCE, len(fds))
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(sync, [fds[first::threads] for first in range(threads)]):
            pass


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def sync_folder(path: str) -> None:
    """The names in a folder are on the disk when the call returns. A folder that is gone needs nothing."""
    with suppress(FileNotFoundError):
        descriptors.sync_folder(path)


def sync_folders(paths: Sequence[str]) -> None:
    """The same of many folders, side by side."""
    if len(paths) < SYNCED_AT_ONCE:
        for path in paths:
            sync_folder(path)
        return
    with ThreadPoolExecutor(SYNCED_AT_ONCE) as pool:
        for _ in pool.map(sync_folder, paths):
            pass


def make_folder(path: str) -> None:
    """A folder with all above it, whoever makes it first."""
    os.makedirs(path, exist_ok=True)  # noqa: PTH103 - called for every job: objects for paths would cost more than it


def names(path: str) -> list[str]:
    """What a folder holds; nothing where there is none."""
    try:
        return os.listdir(path)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def move(source: str, target: str) -> bool:
    """Rename, making the target's folder if need be. False if the source is not there (any more)."""
    while True:
        try:
            os.rename(source, target)  # noqa: PTH104
            return True
        except FileNotFoundError:
            if not os.path.lexists(source):
                return False
        # The folder was never made, or someone took it away because it was empty, or does so while it is made again.
        with suppress(FileNotFoundError):
            make_folder(os.path.dirname(target))  # noqa: PTH120


def remove(path: str) -> None:
    """Unlink what may be gone already."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


def remove_if_empty(path: str) -> None:
    """Take away a folder that holds nothing; one that holds something, or is gone, stays as it is."""
    with suppress(OSError):
        os.rmdir(path)  # noqa: PTH106


def remove_empty_tree(path: str) -> None:
    """Take away folders that hold nothing but such folders; files stay, and the folders above them."""
    for name in names(path):
        remove_empty_tree(f"{path}/{name}")
    remove_if_empty(path)


def remove_tree(path: str) -> None:
    """Take away a file or folder of ours with all that is in it; others may be at it too."""
    if not os.path.isdir(path) or os.path.islink(path):  # noqa: PTH112, PTH114
        remove(path)
        return
    for name in names(path):
        remove_tree(f"{path}/{name}")
    remove_if_empty(path)


@contextmanager
def in_words(root: str) -> Iterator[None]:
    """Turn what the operating system says into an error that names the cause and the fix."""
    try:
        yield
    except OSError as error:
        raise translate(error, root) from error


def translate(error: OSError, root: str) -> QueueError:
    """The error to raise for one of the operating system's."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return QueueFullError(
                f"The disk under the queue '{root}' is full ({error.strerror}). Nothing was lost; make room and go on, "
                "or remove finished jobs you no longer need."
            )
        case errno.EACCES | errno.EROFS | errno.EPERM:
            return ReadOnlyQueueError(
                f"The queue '{root}' cannot be written to ({error.strerror}: '{error.filename}'). Give yourself the "
                "right to read and write that folder and all in it, or name another place."
            )
        case errno.EOPNOTSUPP | errno.EMLINK | errno.ENOSYS:
            return QueueError(
                f"The volume under '{root}' has no hard links ({error.strerror}), and a directory queue is built on "
                "them. Use a local disk or NFS, or another kind of queue."
            )
        case errno.ENOTDIR | errno.EEXIST:
            return ForeignQueueError(
                f"The queue '{root}' cannot be used: '{error.filename}' is a file where a folder should be. "
                "Move it away, or name another place."
            )
        case _:
            return QueueUnavailableError(
                f"The volume under the queue '{root}' does not answer as it should ({error}). "
                "Check that it is there and mounted, then try again."
            )
