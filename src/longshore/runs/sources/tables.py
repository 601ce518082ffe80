"""Sources as they are written in `longshore.toml`: a table with one key that names the sort of source."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longshore.errors import InputFileError, UsageError
from longshore.runs.sources.csv_file import CsvFile
from longshore.runs.sources.generated import PythonSource
from longshore.runs.sources.product import Product
from longshore.runs.sources.scan import Scan
from longshore.runs.sources.sitemap import Sitemap
from longshore.runs.sources.source import Source
from longshore.runs.sources.sql_query import SqlQuery
from longshore.runs.sources.template import Shape
from longshore.runs.submit.input_files import InputFile, InputFormat

_SHAPE = {"url": str, "key": str, "partition": str}
# For each sort of source: the type of its value, and the keys allowed beside it.
_SOURCES: Mapping[str, tuple[type, Mapping[str, type]]] = {
    "urls": (str, {}),
    "jobs": (str, {}),
    "sitemap": (str, {"since": str}),
    "csv": (str, _SHAPE),
    "scan": (str, {"glob": str, "year": int, "limit": int, "partition": str}),
    "sql": (str, {"query": str, "parameters": dict, **_SHAPE}),
    "product": (dict, _SHAPE),
    "python": (str, {}),
}
WORDS = tuple(_SOURCES)
"""The keys that name a sort of source."""
_TYPES = {str: "text", int: "a whole number", dict: "a table"}


def source_in(table: Mapping[str, Any]) -> tuple[Source | None, list[str]]:
    """Return the source that a table describes, and a sentence for everything that is wrong with the table."""
    found = [word for word in _SOURCES if word in table]
    if len(found) != 1:
        which = f"has {' and '.join(found)}" if found else "does not say where the jobs come from"
        return None, [f"its source {which}. Write one of: {', '.join(WORDS)}."]
    word = found[0]
    kind, beside = _SOURCES[word]
    allowed = {word: kind, **beside}
    wrong = [_unknown(name, allowed) for name in table if name not in allowed]
    wrong += [
        f"'{name}' of its source must be {_TYPES[allowed[name]]}, not {value!r}."
        for name, value in table.items()
        if name in allowed and (not isinstance(value, allowed[name]) or isinstance(value, bool) or value in ("", {}))
    ]
    if word == "sql" and "query" not in table:
        wrong.append("its source has 'sql' but no 'query'.")
    if wrong:
        return None, wrong
    try:
        return _CONSTRUCTORS[word](table), []
    except UsageError as error:
        return None, [f"its source: {error}"]


def _unknown(name: str, allowed: Mapping[str, type]) -> str:
    near = difflib.get_close_matches(name, allowed, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"Known are: {', '.join(allowed)}."
    return f"unknown '{name}' in its source. {hint}"


def _shape(table: Mapping[str, Any]) -> Shape:
    return Shape(table.get("url"), table.get("key"), table.get("partition"))


def _product(table: Mapping[str, Any]) -> Source:
    return Product({name: _dimension(values) for name, values in table["product"].items()}, _shape(table))


def _dimension(values: Any) -> Any:
    """Return a list unchanged. Text is the name of a file with one value per line."""
    if not isinstance(values, str):
        return values
    return lambda _chosen: _lines(values)


def _lines(path: str) -> list[str]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(f"{path} cannot be read: {error}. It must have one value on each line.") from error
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


_CONSTRUCTORS: Mapping[str, Callable[[Mapping[str, Any]], Source]] = {
    "urls": lambda table: InputFile(table["urls"], InputFormat.URLS),
    "jobs": lambda table: InputFile(table["jobs"], InputFormat.JOBS),
    "sitemap": lambda table: Sitemap(table["sitemap"], since=table.get("since")),
    "csv": lambda table: CsvFile(table["csv"], _shape(table)),
    "scan": lambda table: Scan(table["scan"], **{name: table[name] for name in _SOURCES["scan"][1] if name in table}),
    "sql": lambda table: SqlQuery(table["sql"], table["query"], table.get("parameters", {}), _shape(table)),
    "product": _product,
    "python": lambda table: PythonSource(table["python"]),
}
