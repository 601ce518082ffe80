"""The registry of the scrapers. A scraper without a mode is single: one command runs it to its end on this machine.

`longshore.toml` may name this file (`scrapers = "registers/scrapers.py"`), so that `longshore start India` finds them.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

# `longshore` itself does not look for modules in the folder where it is started.
sys.path.append(str(Path(__file__).parents[1]))

from longshore import Scraper
from longshore.errors import NotFoundError
from longshore.runs.scrapers.registry import ExecutionMode
from registers.config import asks_for, first_url

HANDLERS = Path(__file__).with_name("handlers.py")


def _distributed(name: str) -> Scraper:
    return Scraper(name, _handlers(), mode="distributed", kind=name.lower(), settings=_settings(name))


def _single(name: str, kind: str) -> Scraper:
    def source() -> Iterator[str]:
        yield first_url(name)

    return Scraper(name, _handlers(), source=source, kind=kind, settings={"workers": 1, **_settings(name)})


def _handlers() -> str:
    return os.path.relpath(HANDLERS)


def _settings(name: str) -> Mapping[str, object]:
    """Return the settings of its workers. Each worker that uses Tor has a Tor of its own."""
    return {"tor": True} if asks_for("TOR", name) else {}


scrapers = [
    _distributed("India"),
    _distributed("Malaysia"),
    _distributed("Netherlands"),
    _distributed("Taiwan"),
    _single("Russia", "russia"),
    _single("Argentina", "argentina"),
    _single("CanadaQuebec", "quebec"),
]


def find(name: str) -> Scraper:
    """Return a scraper by its name; `Canada Quebec` is CanadaQuebec. Raise `NotFoundError`, which lists the names."""
    names = {each.name.lower(): each for each in scrapers}
    wanted = "".join(character for character in name.lower() if character.isalnum())
    if wanted in names:
        # A program may have changed its folder since.
        return replace(names[wanted], handler=_handlers())
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = (
        f"Did you mean {names[near[0]].name}?" if near else f"There are: {', '.join(each.name for each in scrapers)}."
    )
    raise NotFoundError(f"There is no scraper '{name}'. {hint}")


def get_execution_mode(name: str) -> str:
    """Return `single` or `distributed`. A scraper of which no mode is given is single."""
    return str(ExecutionMode(find(name).mode))
