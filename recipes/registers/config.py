"""The settings of this recipe, from the environment and `.env`. Those of Longshore are in its docs/settings.md."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path

from longshore.errors import UsageError
from longshore.settings import DOTENV, read_dotenv


def first_url(register: str) -> str:
    """Return the URL that a single register begins with: that of its live site, or of the replica."""
    variable = f"REGISTERS_{register.upper()}_URL"
    if live := _read(variable):
        return live
    if not _read("REGISTERS_REPLICA"):
        raise UsageError(f"Where does {register} begin? Set {variable}, or REGISTERS_REPLICA, in .env.")
    return _lines(register, "urls.txt")[0]


def replica_urls(register: str) -> list[str]:
    """Return the URLs of all pages that the replica has of a distributed register."""
    return _lines(register, "urls.txt")


def replica_truth(register: str) -> list[dict[str, object]]:
    """Return the records that a perfect scrape of the replica has."""
    return [json.loads(line) for line in _lines(register, "truth.jsonl")]


def asks_for(tool: str, register: str) -> bool:
    """Return whether `.env` asks for a tool, such as TOR, for this register: `REGISTERS_TOR=India,Russia`, or `all`."""
    named = [each.strip() for each in _read(f"REGISTERS_{tool}").split(",")]
    return "all" in named or register in named


def _lines(register: str, name: str) -> list[str]:
    base = _read("REGISTERS_REPLICA").rstrip("/")
    if not base:
        raise UsageError("Where is the replica? Set REGISTERS_REPLICA in .env.")
    with urllib.request.urlopen(f"{base}/{register}/{name}", timeout=60) as answer:  # noqa: S310 (the user's own URL)
        return bytes(answer.read()).decode().splitlines()


def _read(name: str) -> str:
    """Return a variable of the process, else of `.env`, else an empty text."""
    dotenv = Path(DOTENV)
    return os.environ.get(name) or (read_dotenv(dotenv) if dotenv.is_file() else {}).get(name) or ""
