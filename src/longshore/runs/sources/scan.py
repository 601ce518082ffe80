"""A job for each file of a folder, selected by name, year and number."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NoReturn

from longshore.errors import InputFileError, UsageError
from longshore.runs.submit.input_files import InputEntry

# A year, or a date without hyphens that begins with a year.
_YEAR = re.compile(r"(?<!\d)((?:19|20)\d\d)(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))?(?!\d)")


@dataclass(frozen=True)
class Scan:
    """A job for each file below a folder. Its payload is `path`, `name` relative to the folder, and `year`.

    Jobs are in the order of the names, so that the same folder and `limit` give the same jobs. Names that begin with a
    dot are skipped, and links to folders are not followed.
    """

    folder: str
    glob: str = "**"
    """The files: `*.xml` in any folder, `2024/**/*.xml` below `2024`. `**` matches any number of folders."""
    year: int | None = None
    """Only files of this year: the first year in `name` (`2024/a.xml`, `10-K_20240131.html`)."""
    limit: int | None = None
    """Only this many files, the first ones."""
    partition: str | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"The limit of a scan cannot be {self.limit}: it takes a number of files, 1 or more.")
        if self.year is not None and not 1900 <= self.year <= 2099:
            raise UsageError(f"The year of a scan cannot be {self.year}: it takes one from 1900 to 2099.")
        try:
            _ = self._pattern
        except re.error as error:
            raise UsageError(
                f"The glob of a scan cannot be '{self.glob}': {error.msg}. Correct what is in []"
            ) from error

    @property
    def name(self) -> str:
        """Name of the source, for messages."""
        return self.folder

    @property
    def rereadable(self) -> bool:
        """False: there is nothing to check, and listing a large folder twice takes time."""
        return False

    def entries(self) -> Iterator[InputEntry]:
        """Yield every selected file. Raise `InputFileError` if a folder cannot be read."""
        return islice(self._entries(), self.limit)

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for a selection without files."""
        of_year = "" if self.year is None else f" of the year {self.year}"
        raise InputFileError(f"There are no files{of_year} that match '{self.glob}' in {self.folder}.")

    def _entries(self) -> Iterator[InputEntry]:
        for below in _files(Path(self.folder), ""):
            if not self._pattern.fullmatch(below):
                continue
            found = _YEAR.search(below)
            year = int(found[1]) if found else None
            if self.year is not None and year != self.year:
                continue
            path = str(Path(self.folder) / below)
            try:
                path.encode()
            except UnicodeEncodeError:
                raise InputFileError(f"The name of {path!a} is not UTF-8 text. Rename the file.") from None
            payload = {"path": path, "name": below} | ({} if year is None else {"year": year})
            yield InputEntry(payload=payload, partition=self.partition)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # A glob without a slash matches the file's own name in any folder.
        whole = self.glob if "/" in self.glob or self.glob == "**" else f"**/{self.glob}"
        return re.compile(_expression(whole.removeprefix("./")), re.DOTALL)


def _files(folder: Path, below: str) -> Iterator[str]:
    """Yield the names of the files below a folder, relative to it. Only one folder per level is held in memory."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in found
                if not entry.name.startswith(".") and (entry.is_dir(follow_symlinks=False) or entry.is_file())
            )
    except OSError as error:
        raise InputFileError(f"The folder {folder} cannot be read: {error.strerror or error}.") from error
    for name, is_folder in entries:
        if is_folder:
            yield from _files(folder / name, f"{below}{name}/")
        else:
            yield below + name


_SPECIAL = re.compile(r"[\\\[&~|^]")
"""Characters that are special, or may become special, inside the brackets of an expression but not of a glob."""
_SIGNS = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]")


def _expression(glob: str) -> str:
    pieces, end = [], 0
    for sign in _SIGNS.finditer(glob):
        pieces.append(re.escape(glob[end : sign.start()]))
        end = sign.end()
        match sign[0]:
            case "**/":
                pieces.append("(?:[^/]+/)*")
            case "**":
                pieces.append(".*")
            case "*":
                pieces.append("[^/]*")
            case "?":
                pieces.append("[^/]")
            case one_of:
                inside = _SPECIAL.sub(r"\\\g<0>", one_of[1:-1])
                pieces.append(f"[^/{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
    return "".join([*pieces, re.escape(glob[end:])])
