"""How much a fetch has written to the mirror. git limits the size of a push that it receives, not that of a fetch."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_UNFINISHED = ("tmp_pack_", "tmp_idx_", "tmp_obj_")


class FetchedSize:
    """The growth of a mirror since this object was made. One fetch at a time: it counts all new files."""

    def __init__(self, mirror: Path) -> None:
        self._objects = mirror / "objects"
        # Some file systems round the times of files down to two seconds.
        self._since = time.time() - 2

    def over_half(self) -> int:
        """Return the bytes written, if they are more than half of what was free; else 0."""
        written = sum(size for _, size in self._new_files())
        try:
            free = shutil.disk_usage(self._objects).free
        except OSError:
            return 0  # the mirror was deleted: git reports that
        return written if written > free else 0

    def remove_unfinished(self) -> None:
        """Remove what a fetch that was ended left behind: git does so only two weeks later."""
        for path, _ in self._new_files():
            if path.name.startswith(_UNFINISHED):
                path.unlink(missing_ok=True)

    def _new_files(self) -> Iterator[tuple[Path, int]]:
        with suppress(FileNotFoundError), os.scandir(self._objects) as folders:
            for folder in folders:
                # Files may go while we look: a temporary file gets its final name.
                with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as files:
                    for file in files:
                        with suppress(FileNotFoundError):
                            seen = file.stat(follow_symlinks=False)
                            if seen.st_mtime >= self._since:
                                yield Path(file.path), seen.st_size
