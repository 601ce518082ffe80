"""The results of a run as JSONL, a completed job a line, oldest first; streamed, and whole or not there."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from longshore.errors import UsageError
from longshore.queue import Queue
from longshore.runs.export.output_file import STDOUT, opened, place_name, whole
from longshore.runs.export.rows import ResultLine, ResultRows

DEFAULT_OUT = "results.jsonl"


def _put(part: Path, run: str) -> tuple[str, bool]:
    """Give the results of a run a name where nobody named one, such that no results of another run are lost.

    `results.jsonl` where that is free or this run's own, else a name with the run's id in it. A name that is free is
    taken by creating it: of two runs that end at once, one does. Says whether a file was replaced.
    """
    numbered = (f"results-{run}-{n}.jsonl" for n in itertools.count(2))
    for name in itertools.chain([DEFAULT_OUT, f"results-{run}.jsonl"], numbered):
        path = Path(name)
        if _created(part, path):
            return name, False
        if _free(path, run):
            replaced = path.exists()
            if path.is_symlink():
                # What it leads to may be on another volume.
                with whole(path) as there:
                    shutil.copyfile(part, there)
            else:
                part.replace(path)
            return name, replaced
    raise AssertionError  # there is always a number more


def _created(part: Path, path: Path) -> bool:
    """Give the file this name as well, if nothing has it."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError:
        # A volume without links.
        try:
            path.open("xb").close()
        except FileExistsError:
            return False
        part.replace(path)
    return True


def _free(path: Path, run: str) -> bool:
    """Whether nothing is lost with the file: it is not there, empty, or what this run wrote before."""
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
    """Results that were written."""

    place: str
    lines: int
    replaced: bool
    """Whether there was a file of that name before."""
    evaded: bool
    """Whether it got another name than usual, to keep what is there."""


def _there(place: str) -> bool:
    return place != STDOUT and Path(place).exists()


async def deliver(queue: Queue, run: str, out: str | None) -> Delivered:
    """Write the results of a run where they were asked for; where nobody said, where nothing is lost by it."""
    if out is not None:
        replaced = _there(out)
        return Delivered(out, await write_results(queue, run, out), replaced, evaded=False)
    place, replaced = DEFAULT_OUT, False

    def put(part: Path) -> None:
        nonlocal place, replaced
        place, replaced = _put(part, run)

    with _said(run, DEFAULT_OUT), whole(Path(f"results-{run}.jsonl"), put) as part, part.open("wb") as file:
        lines = await _write(queue, run, file)
    return Delivered(place, lines, replaced, evaded=place != DEFAULT_OUT)


async def write_results(queue: Queue, run: str, out: str) -> int:
    """Write the result of every completed job and return their number. `-` is standard output.

    A file is written under another name and renamed when it is whole, so that nobody ever reads half of it. One whose
    name ends in .zst or .gz is compressed.
    """
    with _said(run, out), opened(out) as file:
        return await _write(queue, run, file)


@contextmanager
def _said(run: str, out: str) -> Iterator[None]:
    """Trouble with the file, in words."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            f"The results cannot be written to {place_name(out)}: {error.strerror or error}. They are safe in the "
            f"queue; make room, or choose another place with --out, and give the same command again with --run {run}."
        ) from error


async def _write(queue: Queue, run: str, file: BinaryIO) -> int:
    encoder = msgspec.json.Encoder()
    count = 0
    async for row in ResultRows(queue, run).each():
        file.write(encoder.encode(row.line) + b"\n")
        count += 1
    return count
