"""The registry: which scrapers there are, what each runs, where its jobs come from, and how it is started.

In `longshore.toml`, as tables `[scrapers.NAME]`; or in code, in a file that `scrapers = "my_scrapers.py"` names there.
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
"""Sources that a registry may say without a table."""
_NOT_FOR_A_SCRAPER = {
    "queue": "Where the jobs are is the same for all: set LONGSHORE_QUEUE.",
    "worker_id": "It is each worker's own: set LONGSHORE_WORKER_ID.",
}


class ExecutionMode(StrEnum):
    """How a scraper is started."""

    SINGLE = "single"
    """Here, now, one at a time, to its end."""
    DISTRIBUTED = "distributed"
    """Its jobs are put into the queue, for workers anywhere."""


Jobs = str | Path | Source | Callable[[], Iterable[Item]] | Iterable[Item]
"""Where jobs come from: a file (`.jsonl` is one of jobs, any other of URLs), a source, a function or a list."""


@dataclass(frozen=True)
class Scraper:
    """A scraper by its name. What is wrong with it is said when the registry is read, not as it is made."""

    name: str
    handler: str = ""
    """The handler file. Left out, the file in which the scraper itself is defined."""
    mode: str = ExecutionMode.SINGLE
    source: Jobs | None = None
    """Left out, the jobs are named when it is started."""
    kind: str | None = None
    """Which handler the jobs are for. Left out, the only one of the file."""
    partitions: Sequence[str] = ()
    """The only partitions its jobs may have, where that is to be checked."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of its workers, by their names. Command line and environment go before them."""

    def __post_init__(self) -> None:
        own: object = self.settings
        if isinstance(own, Mapping):
            object.__setattr__(self, "settings", {RENAMED.get(name, name): value for name, value in own.items()})

    @property
    def distributed(self) -> bool:
        """Whether its jobs are for workers anywhere."""
        return self.mode == ExecutionMode.DISTRIBUTED

    @property
    def jobs(self) -> Source | None:
        """Where its jobs come from, ready to be read."""
        return None if self.source is None else source_of(self.source)

    def faults(self, folder: Path) -> Iterator[str]:
        """Everything that is wrong with it, a sentence each."""
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
    """What gives the jobs, whichever way they are named."""
    if isinstance(jobs, Source):
        return jobs
    if isinstance(jobs, str | Path):
        path = str(jobs)
        return InputFile(path, InputFormat.JOBS if path.endswith((".jsonl", ".ndjson")) else InputFormat.URLS)
    return Generated(jobs)


def _setting_faults(name: object, value: Any) -> Iterator[str]:
    if not isinstance(name, str) or name not in TABLE:
        near = difflib.get_close_matches(str(name), TABLE, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else "`longshore config` lists those there are."
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
        # The worker's command is printed, and everything in it.
        yield f"its setting '{name}' holds a password. Put it into the environment or .env as {setting.variable}."


def load_scrapers(folder: Path | None = None) -> dict[str, Scraper]:
    """The registry of a folder, by name. `SettingsError` names everything that is wrong with it at once."""
    folder = folder or Path()
    said = read_toml(folder / TOML).scrapers
    found, faults = _found(said, folder)
    for scraper in found:
        faults += [f"{scraper.name}: {fault}" for fault in scraper.faults(folder)]
    # Files are named after them, and not every disk tells India from india.
    for name, times in Counter(str(scraper.name).lower() for scraper in found).items():
        if times > 1:
            twice = [str(scraper.name) for scraper in found if str(scraper.name).lower() == name]
            faults.append(f"{' and '.join(twice)}: two scrapers have one name. Rename one of them.")
    if faults:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        raise SettingsError(f"The scrapers in {folder / TOML} cannot be used:{listed}")
    return {scraper.name: scraper for scraper in found}


def find_scraper(name: str, folder: Path | None = None) -> Scraper:
    """The scraper of that name. `NotFoundError` says which there are."""
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


def _found(said: Any, folder: Path) -> tuple[list[Scraper], list[str]]:
    if said is None:
        return [], []
    if isinstance(said, str):
        return _in_code(said, folder)
    if not isinstance(said, Mapping):
        return [], [f"'scrapers' must be a file, \"my_scrapers.py\", or tables [scrapers.NAME], not {said!r}."]
    scrapers, faults = [], []
    for name, table in said.items():
        if not isinstance(table, Mapping):
            faults.append(f"{name}: it must be a table: a line [scrapers.{name}], and what it is made of below.")
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
    said = {word: table[word] for word in _SHORT if word in table}
    source = table.get("source")
    made: Source | None = None
    if source is not None and not isinstance(source, Mapping):
        faults.append(f'its source must be a table, such as {{csv = "cities.csv"}}, not {source!r}.')
    elif source is not None or said:
        made, wrong = source_in({**said, **(source or {})})
        faults += wrong
    return Scraper(name=name, source=made, **{word: table[word] for word in own if word in table}), faults


def _in_code(file: str, folder: Path) -> tuple[list[Scraper], list[str]]:
    # Only here: most registries have no code, and importing what runs it takes a while.
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
    # One that has a name of its own and stands in the list is one.
    found = list({id(each): each for each in every if _is_one(each)}.values())
    if not found and not faults:
        faults.append(f'there are no scrapers in {file}. Make one: Scraper("India", source="urls.txt").')
    return [each if each.handler else replace(each, handler=file) for each in found], faults


def _is_one(value: object) -> bool:
    return isinstance(value, Scraper)
