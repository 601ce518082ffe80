"""A fixed table of the partitions of each worker, in a file; and lists of partitions, in a file or an option.

A table is a TOML or a JSON file with a list of partitions for each worker's number:

    0 = ["CA", "NV"]
    1 = ["TX"]

All problems of a table are reported at once. A table says which partitions each worker has while all are present. The
partitions of absent workers, and partitions that the table does not list, go to the workers with the fewest, so that
every partition has a worker.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longshore.errors import InputFileError, UsageError
from longshore.fleet.partitions.assignment import Shares, spread
from longshore.fleet.partitions.us_states import US_STATES

LISTS: Mapping[str, tuple[str, ...]] = {"us-states": tuple(US_STATES)}
"""Bundled lists of partitions, by name."""


class AssignmentTable:
    """The partitions of each worker, by its number. Made by `read_table`."""

    def __init__(self, rows: Mapping[int, Sequence[str]]) -> None:
        self.rows = {number: tuple(rows[number]) for number in sorted(rows)}

    @property
    def partitions(self) -> tuple[str, ...]:
        """Every partition in the table, once; sorted."""
        return tuple(sorted({partition for row in self.rows.values() for partition in row}))

    def assign(self, partitions: Collection[str], workers: Collection[int]) -> Shares:
        """Return the shares. A partition belongs to the worker that the table names, if that worker is present."""
        wanted = set(partitions)
        shares = {number: [p for p in self.rows.get(number, ()) if p in wanted] for number in workers}
        return spread(wanted - {p for share in shares.values() for p in share}, shares)

    def problems(self, partitions: Collection[str] | None = None, workers: int | None = None) -> list[str]:
        """Return all problems as sentences: of the table itself, and for these `partitions` and number of `workers`."""
        found = []
        owners: defaultdict[str, list[int]] = defaultdict(list)
        for number, row in self.rows.items():
            for partition in row:
                owners[partition].append(number)
        for partition, numbers in sorted(owners.items()):
            if len(set(numbers)) > 1:
                found.append(f"{partition} is listed for workers {_and(sorted(set(numbers)))}; leave it with one.")
            elif len(numbers) > 1:
                found.append(f"{partition} is listed {len(numbers)} times for worker {numbers[0]}; once is enough.")
        if partitions is not None:
            if missing := sorted(set(partitions) - set(owners)):
                found.append(f"No worker has {_and(missing)}.")
            if unknown := sorted(set(owners) - set(partitions)):
                found.append(f"{_and(unknown)}: not among the partitions to assign.")
        if workers is not None and (surplus := [number for number in self.rows if number >= workers]):
            named = f"worker {surplus[0]}" if len(surplus) == 1 else f"workers {_and(surplus)}"
            found.append(f"It has {named}, but {workers} workers are numbered 0 to {workers - 1}.")
        return found


def read_table(path: Path) -> AssignmentTable:
    """Return the table in a file. Raise `InputFileError` with all its problems if it is not a table."""
    raw = _read(path)
    rows: dict[int, list[str]] = {}
    problems = []
    for key, value in _entries(path, raw):
        if not (key.isascii() and key.isdecimal()):
            problems.append(f"'{key}' is not a worker's number.")
        elif int(key) in rows:
            problems.append(f"Worker {int(key)} is listed twice.")
        elif not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            problems.append(f"The value of worker {key} must be a list of names, such as {_example(path)}.")
        else:
            rows[int(key)] = value
    if not rows and not problems:
        problems.append(f"It has no workers. Give each a list: {_example(path)}.")
    if problems:
        raise InputFileError(problems_text(path, problems))
    return AssignmentTable(rows)


def problems_text(path: Path, problems: Sequence[str]) -> str:
    """Return the problems of a file as one message."""
    if len(problems) == 1:
        return f"{path}: {problems[0]}"
    return "\n".join([f"{path} has {len(problems)} problems:", *(f"  - {problem}" for problem in problems)])


def read_partitions(path: Path) -> tuple[str, ...]:
    """Return the partitions in a file, one per line, in order. Skip blank lines and lines that start with `#`."""
    lines = [line.strip() for line in _read(path).splitlines()]
    names = [line for line in lines if line and not line.startswith("#")]
    if not names:
        raise InputFileError(f"There are no partitions in {path}. Put one on each line.")
    if repeated := _repeated(names):
        raise InputFileError(f"{path} lists {_and(repeated)} more than once. A partition is listed once.")
    return tuple(names)


def listed_partitions(text: str) -> tuple[str, ...]:
    """Return the partitions of a comma-separated list, in order, or those of a bundled list (`us-states`)."""
    if text.strip() in LISTS:
        return LISTS[text.strip()]
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise UsageError(f"'{text}' is not a list of partitions. Separate them with commas: CA,TX.")
    if repeated := _repeated(names):
        raise UsageError(f"'{text}' lists {_and(repeated)} more than once. A partition is listed once.")
    return tuple(names)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputFileError(f"{path} is not UTF-8 text. Save it as UTF-8.") from error


def _entries(path: Path, raw: str) -> Iterable[tuple[str, Any]]:
    """Return the keys and values in the file; for JSON also duplicate keys, which a dict would hide."""
    parse: Callable[[str], object]
    if path.suffix.lower() == ".json":
        kind, parse = "JSON", lambda text: json.loads(text, object_pairs_hook=_Pairs)
    elif path.suffix.lower() == ".toml":
        kind, parse = "TOML", lambda text: _Pairs(tomllib.loads(text).items())
    else:
        raise InputFileError(f"{path} is neither TOML nor JSON. Name it so that it ends with .toml or .json.")
    try:
        pairs = parse(raw)
    except (ValueError, RecursionError) as error:
        raise InputFileError(f"{path} is not {kind}: {error}.") from error
    if not isinstance(pairs, _Pairs):
        raise InputFileError(f"{path} must be an object with a list for each worker: {_example(path)}.")
    return pairs


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object, in the order of the file."""


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _and(names: Sequence[object]) -> str:
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def _example(path: Path) -> str:
    return '{"0": ["CA", "NV"]}' if path.suffix.lower() == ".json" else '0 = ["CA", "NV"]'
