"""The settings of this recipe, from the environment and `.env`. Those of Longshore are in its docs/settings.md."""

from __future__ import annotations

import os
from pathlib import Path

from longshore.settings import DOTENV, read_dotenv

LIVE = "https://www.yellowpages.com"


def site() -> str:
    """Return the site: `YELLOWPAGES_URL`, else the live one."""
    return (_read("YELLOWPAGES_URL") or LIVE).rstrip("/")


def mode() -> str:
    """Return how pages are fetched: `YELLOWPAGES_MODE`, `http` or `browser`. Raise `ValueError` for another one."""
    named = _read("YELLOWPAGES_MODE") or "http"
    if named not in ("http", "browser"):
        raise ValueError(f"YELLOWPAGES_MODE cannot be '{named}'. Write http or browser.")
    return named


def _read(name: str) -> str:
    """Return a variable of the process, else of `.env`, else an empty text."""
    dotenv = Path(DOTENV)
    return os.environ.get(name) or (read_dotenv(dotenv) if dotenv.is_file() else {}).get(name) or ""
