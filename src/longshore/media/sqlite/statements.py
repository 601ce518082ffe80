"""The SQL of this medium, read from the `.sql` files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

import msgspec

_SQL = files(__package__) / "sql"
_NAMED = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


def statements(topic: str) -> dict[str, str]:
    """Return the statements of `sql/<topic>.sql`, by the name in the line above each."""
    return {name: text.strip() for name, text in _NAMED.findall(_SQL.joinpath(f"{topic}.sql").read_text("utf-8"))}


def migrations() -> list[str]:
    """Return the scripts that lead from an empty file to the newest schema; the n-th creates version n."""
    scripts = sorted(_SQL.joinpath("migrations").iterdir(), key=lambda script: script.name)
    return [script.read_text("utf-8") for script in scripts]


def json_list(values: Iterable[str] | Iterable[int] | None) -> str | None:
    """Return the values as JSON for SQLite's `json_each`; None for None."""
    return None if values is None else msgspec.json.encode(list(values)).decode()
