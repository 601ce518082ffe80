"""File system calls: synced writes of whole files, and translation of OS errors into `longshore.errors`."""

from __future__ import annotations

import errno
import os
import secrets
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
"""Files that are open together while they wait for fsync; far below the usual limit of 1,024 open files."""
MARKER = ".nfs-longshore-"
"""How the name of a marker of `fresh_names` begins. Every Longshore ignores names that begin with `.nfs`."""


class StaleListingError(Exception):
    """The volume listed a folder as it was some time ago, so the listing proves nothing."""


def read(path: str) -> bytes:
    """Return the whole content of a file."""
    fd = open_no_follow(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        data = os.read(fd, size)
        # One call is enough, except for files of gigabytes and for volumes that return partial reads.
        while len(data) < size and (part := os.read(fd, size - len(data))):
            data += part
        return data
    finally:
        os.close(fd)


def write(path: str, data: bytes) -> None:
    """Write a file and fsync it. Its folder is not synced."""
    write_all([(path, data)])


def write_all(files: Sequence[tuple[str, bytes]]) -> None:
    """Write files and fsync them. Their folders are not synced.

    Writes many files first and then syncs them in parallel.
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
    """Replace the content of an existing file and fsync it. Raises if the file is gone."""
    fd = open_no_follow(path, os.O_WRONLY | os.O_TRUNC)
    try:
        _write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_hint(path: str, data: bytes) -> None:
    """Write a file without fsync, for content that is worthless after a power cut."""
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
    # With parallel fsyncs the file system writes its log once for many files: ten times as fast as one by one.
    threads = min(SYNCED_AT_ONCE, len(fds))
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(sync, [fds[first::threads] for first in range(threads)]):
            pass


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def sync_folder(path: str) -> None:
    """Fsync a folder, so that the names in it are on the disk. A folder that is gone needs no sync."""
    with suppress(FileNotFoundError):
        descriptors.sync_folder(path)


def sync_folders(paths: Sequence[str]) -> None:
    """Fsync many folders in parallel."""
    if len(paths) < SYNCED_AT_ONCE:
        for path in paths:
            sync_folder(path)
        return
    with ThreadPoolExecutor(SYNCED_AT_ONCE) as pool:
        for _ in pool.map(sync_folder, paths):
            pass


def make_folder(path: str) -> None:
    """Make a folder and its parents, unless they exist."""
    os.makedirs(path, exist_ok=True)  # noqa: PTH103 - called for every job: `Path` objects would cost more than the call


def names(path: str) -> list[str]:
    """Return the names in a folder; none if there is no such folder."""
    try:
        return os.listdir(path)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def fresh_names(path: str) -> list[str]:
    """Return the names in a folder as they are now; none if there is no such folder.

    A network volume may answer `names` from a cache of some seconds or minutes ago. So this makes a file in the folder
    first: a listing that has it is newer than the call. Raises `StaleListingError` if no listing has it.
    """
    folder, _, name = path.rpartition("/")
    # More than once: another process may take the file for one that a killed process left, or remove the empty folder.
    for _ in range(3):
        marker = f"{MARKER}{secrets.token_hex(6)}"
        try:
            os.close(open_no_follow(f"{path}/{marker}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except (FileNotFoundError, NotADirectoryError):
            # The volume may also remember that the folder was missing.
            if not os.path.lexists(folder) or name not in fresh_names(folder) or not os.path.isdir(path):  # noqa: PTH112
                return []
            continue
        try:
            found = names(path)
        finally:
            remove(f"{path}/{marker}")
        if marker in found:
            return [each for each in found if not each.startswith(MARKER)]
    raise StaleListingError(path)


def move(source: str, target: str) -> bool:
    """Rename a file, making the target's folder if needed. Return False if the source does not exist (any more)."""
    while True:
        try:
            os.rename(source, target)  # noqa: PTH104
            return True
        except FileNotFoundError:
            if not os.path.lexists(source):
                return False
        # The target's folder was never made, or another process removes it because it is empty. Make it and retry.
        with suppress(FileNotFoundError):
            make_folder(os.path.dirname(target))  # noqa: PTH120


def remove(path: str) -> None:
    """Unlink a file that may be gone already."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


def remove_if_empty(path: str) -> None:
    """Remove a folder if it is empty; do nothing if it is not empty or is gone."""
    with suppress(OSError):
        os.rmdir(path)  # noqa: PTH106


def remove_empty_tree(path: str) -> None:
    """Remove all folders under `path` that hold no file, at any depth; files and their parent folders stay."""
    for name in names(path):
        if name.startswith(MARKER):
            remove(f"{path}/{name}")
        else:
            remove_empty_tree(f"{path}/{name}")
    remove_if_empty(path)


def remove_tree(path: str) -> None:
    """Remove a file or folder with its content. Other processes may remove the same tree at the same time."""
    if not os.path.isdir(path) or os.path.islink(path):  # noqa: PTH112, PTH114
        remove(path)
        return
    for name in names(path):
        remove_tree(f"{path}/{name}")
    remove_if_empty(path)


@contextmanager
def translated_errors(root: str) -> Iterator[None]:
    """Turn each `OSError` of the block into a `QueueError` that names the cause and the fix."""
    try:
        yield
    except OSError as error:
        raise translate(error, root) from error


def translate(error: OSError, root: str) -> QueueError:
    """Return the `QueueError` to raise for an `OSError`."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return QueueFullError(
                f"The disk under the queue '{root}' is full ({error.strerror}). Nothing was lost. Free some space, "
                "or prune finished jobs that you no longer need."
            )
        case errno.EACCES | errno.EROFS | errno.EPERM:
            return ReadOnlyQueueError(
                f"The queue '{root}' cannot be written ({error.strerror}: '{error.filename}'). Give yourself read and "
                "write permission for that folder and everything in it, or name another folder."
            )
        case errno.EOPNOTSUPP | errno.EMLINK | errno.ENOSYS:
            return QueueError(
                f"The volume under '{root}' does not support hard links ({error.strerror}), which a directory queue "
                "needs. Use a local disk or NFS, or another kind of queue."
            )
        case errno.ENOTDIR | errno.EEXIST:
            return ForeignQueueError(
                f"The queue '{root}' cannot be used: '{error.filename}' is a file where a folder should be. "
                "Move it away, or name another folder."
            )
        case _:
            return QueueUnavailableError(
                f"The volume under the queue '{root}' returned an unexpected error ({error}). "
                "Check that the volume is mounted, then try again."
            )
