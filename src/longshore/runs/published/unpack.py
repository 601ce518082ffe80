"""Write the files of an accepted version where Python can import them."""

from __future__ import annotations

from pathlib import Path

from longshore.errors import PublishedCodeError
from longshore.runs.published.environment import private_folder
from longshore.runs.published.handler_code import HandlerCode, check
from longshore.system.atomic_file import write_atomically
from longshore.system.file_lock import FileLock


def unpack(code: HandlerCode, fingerprint: str) -> Path:
    """Write the files into the user's cache and return the handler file.

    Files that are there already are compared byte by byte, and written again if they differ.
    """
    folder = private_folder("versions", fingerprint)
    lock = FileLock(folder / "lock", private=True)
    lock.acquire()
    try:
        return write_files(code, folder / "files")
    finally:
        lock.release()


def write_files(code: HandlerCode, folder: Path) -> Path:
    """Write the files of a version below `folder`, and return the handler file.

    Raise `PublishedCodeError` if that is not possible.
    """
    check(code)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = folder.resolve(strict=True)
        for file in code.files:
            path = root / file.name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The names were checked; a link that was put into the folder is noticed here.
            if path.parent.resolve() != path.parent or path.is_symlink():
                raise PublishedCodeError(f"{path} leads out of {root}. Remove {root} and repeat the command.")
            if not path.is_file() or path.read_bytes() != file.content:
                write_atomically(path, file.content)
            path.chmod(0o700 if file.executable else 0o600)
        return root / code.entry
    except OSError as error:
        raise PublishedCodeError(f"{error.filename or folder} cannot be written: {error.strerror}.") from error
