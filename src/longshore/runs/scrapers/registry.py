"""The registry of scrapers: for each, its handler file, the source of its jobs and how it is started.

It is written in `longshore.toml` as tables `[scrapers.NAME]`, or in a Python file that `scrapers = "my_scrapers.py"`
names there.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from longshore.errors import HandlerFileError, NotFoundError, SettingsError
from longshore.runs.sources import Generated, Source, source_in
from longshore.runs.sources.generated import Item
from longshore.runs.submit.input_files import InputFile, InputFormat
from longshore.settings import TABLE, TOML, show
from longshore.settings.files import read_toml
from longshore.settings.table import RENAMED
from longshore.settings.values import parsed

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SHORT = ("urls", "jobs")
"""Sources that may be written without a `source` table."""
_NOT_FOR_A_SCRAPER = {
    "queue": "All scrapers use the same queue: set LONGSHORE_QUEUE.",
    "worker_id": "Each worker has its own: set LONGSHORE_WORKER_ID.",
}


class ExecutionMode(StrEnum):
    """How a scraper is started."""

    SINGLE = "single"
    """The command works on the run here until it ends; one command per scraper at a time."""
    DISTRIBUTED = "distributed"
    """The command submits the jobs to the queue, for workers on any machine."""


Jobs = str | Path | Source | Callable[[], Iterable[Item]] | Iterable[Item]
"""The origin of jobs: a file (`.jsonl` holds jobs, any other file URLs), a source, a function or a list."""


@dataclass(frozen=True)
class Scraper:
    """A named scraper. Its values are checked when the registry is read, not by the constructor."""

    name: str
    handler: str = ""
    """The handler file. Default: the file in which the scraper itself is defined."""
    mode: str = ExecutionMode.SINGLE
    source: Jobs | None = None
    """The source of its jobs. Default: the source is given when the scraper is started."""
    kind: str | None = None
    """The handler that its jobs are for. Default: the only handler of the file."""
    partitions: Sequence[str] = ()
    """The only partitions its jobs may have; empty allows any."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of its workers by name. The command line and the environment override them."""

    def __post_init__(self) -> None:
        own: object = self.settings
        if isinstance(own, Mapping):
            object.__setattr__(self, "settings", {RENAMED.get(name, name): value for name, value in own.items()})

    @property
    def distributed(self) -> bool:
        """Whether its jobs are submitted for workers on any machine."""
        return self.mode == ExecutionMode.DISTRIBUTED

    @property
    def jobs(self) -> Source | None:
        """The source of its jobs, ready to be read; None if it has none of its own."""
        return None if self.source is None else source_of(self.source)

    def faults(self, folder: Path) -> Iterator[str]:
        """Yield a sentence for everything that is wrong with it."""
        if not isinstance(self.name, str) or not _NAME.match(self.name):
            yield (
                "its name is made of letters, digits, '.', '_' and '-', starts with a letter or digit, and has at "
                "most 100 characters."
            )
        yield from self._handler_faults(folder)
        if self.mode not in list(ExecutionMode):
            yield f"its mode cannot be {self.mode!r}: it is 'single' or 'distributed'."
        if self.kind is not None and (not isinstance(self.kind, str) or not self.kind.strip()):
            yield f"its kind must be text, not {self.kind!r}."
        yield from self._partition_faults()
        own: object = self.settings
        if isinstance(own, Mapping):
            for name, value in own.items():
                yield from _setting_faults(name, value)
        else:
            yield f"its settings must be a table, not {own!r}."

    def _handler_faults(self, folder: Path) -> Iterator[str]:
        if not isinstance(self.handler, str) or not self.handler:
            yield 'it names no handler file. Write handler = "pages.py".'
        elif not self.handler.endswith(".py"):
            yield f"its handler '{self.handler}' is not a Python file. A handler file ends in .py."
        elif not (folder / self.handler).is_file():
            yield f"there is no handler file {self.handler}."

    def _partition_faults(self) -> Iterator[str]:
        named = self.partitions
        if isinstance(named, str) or not isinstance(named, Sequence):
            yield f'its partitions must be a list of names, ["CA", "TX"], not {named!r}.'
            return
        if wrong := [name for name in named if not isinstance(name, str) or not name]:
            yield f"its partitions hold {wrong[0]!r}, which is no name."
        elif twice := [name for name, times in Counter(named).items() if times > 1]:
            yield f"its partitions list {', '.join(twice)} more than once."


def source_of(jobs: Jobs) -> Source:
    """Return the source that the value describes."""
    if isinstance(jobs, Source):
        return jobs
    if isinstance(jobs, str | Path):
        path = str(jobs)
        return InputFile(path, InputFormat.JOBS if path.endswith((".jsonl", ".ndjson")) else InputFormat.URLS)
    return Generated(jobs)


def _setting_faults(name: object, value: Any) -> Iterator[str]:
    if not isinstance(name, str) or name not in TABLE:
        near = difflib.get_close_matches(str(name), TABLE, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else "`longshore config` lists all settings."
        yield f"unknown setting '{name}'. {hint}"
        return
    setting = TABLE[name]
    if name in _NOT_FOR_A_SCRAPER:
        yield f"'{name}' cannot be one of its settings. {_NOT_FOR_A_SCRAPER[name]}"
        return
    try:
        fits = setting.holds(parsed(setting.type, value))
    except (ValueError, TypeError):
        fits = False
    if not fits:
        yield f"its setting '{name}' cannot be {value!r}: it takes {setting.allowed}."
    elif isinstance(value, str) and show(value) != value:
        # The worker's command is printed with all its settings.
        yield f"its setting '{name}' holds a password. Put it into the environment or .env as {setting.variable}."


def load_scrapers(folder: Path | None = None) -> dict[str, Scraper]:
    """Return the scrapers of a folder's registry by name.

    Raise one `SettingsError` that names everything that is wrong with the registry.
    """
    folder = folder or Path()
    found, faults = _parse_registry(read_toml(folder / TOML).scrapers, folder)
    for scraper in found:
        faults += [f"{scraper.name}: {fault}" for fault in scraper.faults(folder)]
    # Files are named after scrapers, and some file systems do not tell India from india.
    for name, times in Counter(str(scraper.name).lower() for scraper in found).items():
        if times > 1:
            twice = [str(scraper.name) for scraper in found if str(scraper.name).lower() == name]
            faults.append(f"{' and '.join(twice)}: two scrapers have one name. Rename one of them.")
    if faults:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        raise SettingsError(f"The scrapers in {folder / TOML} cannot be used:{listed}")
    return {scraper.name: scraper for scraper in found}


def find_scraper(name: str, folder: Path | None = None) -> Scraper:
    """Return the scraper of that name. Raise `NotFoundError`, which lists the known scrapers."""
    scrapers = load_scrapers(folder)
    if name in scrapers:
        return scrapers[name]
    near = difflib.get_close_matches(name.lower(), {each.lower(): each for each in scrapers}, n=1, cutoff=0.6)
    meant = next((each for each in scrapers if near and each.lower() == near[0]), None)
    if meant is not None:
        hint = f"Did you mean {meant}?"
    elif scrapers:
        hint = f"There are: {', '.join(sorted(scrapers))}."
    else:
        hint = f"There are none. A table [scrapers.{name}] in {TOML} makes one."
    raise NotFoundError(f"There is no scraper '{name}'. {hint}")


def _parse_registry(value: Any, folder: Path) -> tuple[list[Scraper], list[str]]:
    if value is None:
        return [], []
    if isinstance(value, str):
        return _in_code(value, folder)
    if not isinstance(value, Mapping):
        return [], [f"'scrapers' must be a file, \"my_scrapers.py\", or tables [scrapers.NAME], not {value!r}."]
    scrapers, faults = [], []
    for name, table in value.items():
        if not isinstance(table, Mapping):
            faults.append(f"{name}: it must be a table: a line [scrapers.{name}], with its values on the lines below.")
            continue
        scraper, wrong = _from_table(name, table)
        scrapers.append(scraper)
        faults += [f"{name}: {fault}" for fault in wrong]
    return scrapers, faults


def _from_table(name: str, table: Mapping[str, Any]) -> tuple[Scraper, list[str]]:
    own = [part.name for part in fields(Scraper) if part.name not in {"name", "source"}]
    known = [*own, "source", *_SHORT]
    faults = []
    for word in table:
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"Known are: {', '.join(known)}."
            faults.append(f"unknown '{word}'. {hint}")
    short = {word: table[word] for word in _SHORT if word in table}
    source = table.get("source")
    made: Source | None = None
    if source is not None and not isinstance(source, Mapping):
        faults.append(f'its source must be a table, such as {{csv = "cities.csv"}}, not {source!r}.')
    elif source is not None or short:
        made, wrong = source_in({**short, **(source or {})})
        faults += wrong
    return Scraper(name=name, source=made, **{word: table[word] for word in own if word in table}), faults


def _in_code(file: str, folder: Path) -> tuple[list[Scraper], list[str]]:
    # Imported here because most registries have no code, and this import is slow.
    from longshore.handlers.load import import_file

    try:
        values = vars(import_file(folder / file))
    except HandlerFileError as error:
        return [], [str(error)]
    listed = values.get("scrapers", ())
    if isinstance(listed, Scraper | str) or not isinstance(listed, Iterable):
        return [], [f"'scrapers' in {file} must be a list of Scraper(…), not {listed!r}."]
    every = [*listed, *(value for value in values.values() if isinstance(value, Scraper))]
    faults = [f"'scrapers' in {file} holds {each!r}, which is no Scraper." for each in every if not _is_one(each)]
    # A scraper may be both a module variable and an element of the list: count it once.
    found = list({id(each): each for each in every if _is_one(each)}.values())
    if not found and not faults:
        faults.append(f'there are no scrapers in {file}. Make one: Scraper("India", source="urls.txt").')
    return [each if each.handler else replace(each, handler=file) for each in found], faults


def _is_one(value: object) -> bool:
    return isinstance(value, Scraper)
