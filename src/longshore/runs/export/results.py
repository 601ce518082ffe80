"""The results of a run as JSONL: one line per completed job, oldest first, streamed and written atomically."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

import msgspec

from longshore.errors import UsageError
from longshore.outcome import is_skipped
from longshore.queue import Queue
from longshore.runs.export.export import SUFFIXES, ExportFormat
from longshore.runs.export.output_file import COMPRESSED, STDOUT, atomic_output, check_out, opened, place_name
from longshore.runs.export.rows import ResultLine, ResultRows

DEFAULT_OUT = "results.jsonl"


def _place_default(part: Path, run: str) -> tuple[str, bool]:
    """Move the results of a run to a default name without losing the results of another run.

    The name is `results.jsonl` if that is free or this run's own, else a name with the run's id. A free name is taken
    by creating the file, so that of two runs that end at once only one gets it. Return the name, and whether a file was
    replaced.
    """
    numbered = (f"results-{run}-{n}.jsonl" for n in itertools.count(2))
    for name in itertools.chain([DEFAULT_OUT, f"results-{run}.jsonl"], numbered):
        path = Path(name)
        if _create(part, path):
            return name, False
        if _replaceable(path, run):
            replaced = path.exists()
            if path.is_symlink():
                # The link may point to another volume.
                with atomic_output(path) as there:
                    shutil.copyfile(part, there)
            else:
                part.replace(path)
            return name, replaced
    raise AssertionError  # the numbers never end


def _create(part: Path, path: Path) -> bool:
    """Give the file the name `path`. Return False if the name is taken."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError:
        # The volume does not support hard links.
        try:
            path.open("xb").close()
        except FileExistsError:
            return False
        part.replace(path)
    return True


def _replaceable(path: Path, run: str) -> bool:
    """Return whether the file may be replaced: it does not exist, is empty, or was written by this run."""
    try:
        with path.open("rb") as file:
            first = file.readline()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return not first or msgspec.json.decode(first, type=ResultLine).run == run
    except msgspec.DecodeError:
        return False


@dataclass(frozen=True)
class Delivered:
    """The file with the results that was written."""

    place: str
    lines: int
    replaced: bool
    """Whether a file of that name was replaced."""
    evaded: bool
    """Whether another name than the default was used, to keep an existing file."""
    skipped: int = 0
    """How many of the jobs were skipped on purpose, such as links that robots.txt forbids."""


_OTHER_FORMATS = frozenset({".html", ".ods", ".pdf", ".tsv", ".xls", ".xlsx", ".xml"})
"""Endings that would lie about the content: other programs open a file by its ending."""


def _exists(place: str) -> bool:
    return place != STDOUT and Path(place).exists()


def check_results_out(out: str | None) -> None:
    """Raise `UsageError`, before any work is done, if `out` cannot be written or names another format than JSONL."""
    check_out(DEFAULT_OUT if out is None else out)
    path = PurePath(out or DEFAULT_OUT)
    ending = PurePath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
    if (format_ := SUFFIXES.get(ending, ExportFormat.JSONL)) is not ExportFormat.JSONL:
        raise UsageError(
            f"--out {out}: the results are written as JSONL, and {ending} means {format_}. Name a file that ends in "
            f".jsonl, or leave --out out; afterwards, `longshore export RUN --out {out}` writes {format_}."
        )
    if ending.lower() in _OTHER_FORMATS:
        raise UsageError(
            f"--out {out}: the results are written as JSONL, and {ending} is another format. Name a file that ends in "
            ".jsonl; afterwards, `longshore export RUN --out results.csv` writes a table."
        )


async def deliver(queue: Queue, run: str, out: str | None) -> Delivered:
    """Write the results of a run to `out`, or for None to a default name that loses no other results."""
    if out is not None:
        replaced = _exists(out)
        with _usage_errors(run, out), opened(out) as file:
            lines, skipped = await _write(queue, run, file)
        return Delivered(out, lines, replaced, evaded=False, skipped=skipped)
    place, replaced = DEFAULT_OUT, False

    def put(part: Path) -> None:
        nonlocal place, replaced
        place, replaced = _place_default(part, run)

    with (
        _usage_errors(run, DEFAULT_OUT),
        atomic_output(Path(f"results-{run}.jsonl"), put) as part,
        part.open("wb") as file,
    ):
        lines, skipped = await _write(queue, run, file)
    return Delivered(place, lines, replaced, evaded=place != DEFAULT_OUT, skipped=skipped)


async def write_results(queue: Queue, run: str, out: str) -> int:
    """Write the result of every completed job and return their number. `-` is standard output.

    A file is written under another name and renamed when it is complete. It is compressed if its name ends in .zst or
    .gz.
    """
    with _usage_errors(run, out), opened(out) as file:
        return (await _write(queue, run, file))[0]


@contextmanager
def _usage_errors(run: str, out: str) -> Iterator[None]:
    """Raise errors of the output file as `UsageError`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            f"The results cannot be written to {place_name(out)}: {error.strerror or error}. They are safe in the "
            f"queue: free some space or choose another file with --out, and repeat the command with --run {run}."
        ) from error


async def _write(queue: Queue, run: str, file: BinaryIO) -> tuple[int, int]:
    """Write all results; return how many there are, and how many are of skipped jobs."""
    encoder = msgspec.json.Encoder()
    count = skipped = 0
    async for row in ResultRows(queue, run).each():
        file.write(encoder.encode(row.line) + b"\n")
        count += 1
        skipped += isinstance(row.line, ResultLine) and is_skipped(row.line.result)
    return count, skipped
