"""The settings of this recipe, from the environment and `.env`. Those of Longshore are in its docs/settings.md."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from longshore.errors import UsageError
from longshore.settings import DEFAULT, DOTENV, export_dotenv, read_dotenv, resolve

LIVE = "https://www.sec.gov/Archives"
QUEUE = "data/queue"
MODEL = "llama3.2:3b"
BLOCK_PAGES = ("Request Rate Threshold Exceeded", "Undeclared Automated Tool")
"""In the titles of pages that refuse a request with status 200."""
MOST_REQUESTS = 10
"""Requests a second that EDGAR takes from one organisation, over all its machines."""


@dataclass(frozen=True)
class Neo4j:
    """A Neo4j server, or another one that speaks Bolt and Cypher."""

    uri: str
    user: str
    password: str
    database: str | None


def source() -> str:
    """Return where the filings are: `EDGAR_URL`, else the live source."""
    return (_read("EDGAR_URL") or LIVE).rstrip("/")


def uses_model() -> bool:
    """Return whether a model looks for facts, too (`USE_AI_EXTRACTION`, true). Raise `UsageError` for another word."""
    named = (_read("USE_AI_EXTRACTION") or "true").lower()
    if named not in ("true", "false", "1", "0", "yes", "no"):
        raise UsageError(f"USE_AI_EXTRACTION cannot be '{named}'. Write true or false.")
    return named in ("true", "1", "yes")


def ollama_url() -> str:
    """Return where Ollama is: `OLLAMA_BASE_URL`, else this machine."""
    return (_read("OLLAMA_BASE_URL") or "http://127.0.0.1:11434").rstrip("/")


def ollama_model() -> str:
    """Return the model: `OLLAMA_MODEL`."""
    return _read("OLLAMA_MODEL") or MODEL


def ollama_seconds() -> float:
    """Return the seconds that an answer may take: `OLLAMA_TIMEOUT_SECONDS`, 300. Raise `UsageError` for other words."""
    named = _read("OLLAMA_TIMEOUT_SECONDS") or "300"
    try:
        seconds = float(named)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise UsageError(f"OLLAMA_TIMEOUT_SECONDS cannot be '{named}'. Write seconds, from 1 to 86400.")
    return seconds


def neo4j() -> Neo4j | None:
    """Return the Neo4j server of `NEO4J_URI`; None if there is none."""
    uri = _read("NEO4J_URI")
    if not uri:
        return None
    return Neo4j(uri, _read("NEO4J_USER") or "neo4j", _read("NEO4J_PASSWORD"), _read("NEO4J_DATABASE") or None)


def graph_file() -> Path | None:
    """Return the file of the embedded graph: `FILINGS_GRAPH`, else data/graph.lbug; None for the word none."""
    named = _read("FILINGS_GRAPH") or "data/graph.lbug"
    return None if named.lower() == "none" else Path(named)


def pages_folder() -> Path | None:
    """Return the folder for the highlighted pages: `FILINGS_PAGES`, else data/pages; None for the word none."""
    named = _read("FILINGS_PAGES") or "data/pages"
    return None if named.lower() == "none" else Path(named)


def queue_of(folder: str | None = None) -> str:
    """Return the queue: the folder that an option names, else that of the settings, else `data/queue`."""
    if folder is not None:
        return folder if "://" in folder else f"dir://{folder}"
    settings = resolve({})
    return f"dir://{QUEUE}" if settings.source("queue") == DEFAULT else settings.queue


def prepare(queue: str) -> None:
    """Let all of Longshore use this queue and `.env`, and keep to the rules of the live source.

    Raise `UsageError` if the live source is asked without a contact.
    """
    export_dotenv()
    for name in ("QUEUE_DIR", "GITHUB_REPO_URL", "TASKMANAGER_API_URL"):
        # Empty, it switches the one of `.env` off.
        os.environ[name] = ""
    os.environ["LONGSHORE_QUEUE"] = queue
    os.environ.setdefault("LONGSHORE_BLOCK_PAGES", "; ".join(f"title={each}" for each in BLOCK_PAGES))
    if is_live():
        check_contact()
        settings = resolve({})
        os.environ["LONGSHORE_HOST_RATE"] = str(min(settings.host_rate, MOST_REQUESTS - 1))


def slow_down() -> None:
    """Let the coordinator ask the live source once a second: that is what the workers leave of its limit."""
    if is_live():
        os.environ["LONGSHORE_HOST_DELAY"] = "1"


def is_live() -> bool:
    """Return whether filings come from the live source."""
    host = (urlsplit(source()).hostname or "").lower()
    return host == "sec.gov" or host.endswith(".sec.gov")


def check_contact() -> None:
    """Raise `UsageError` unless the user agent names a contact, which the live source requires."""
    settings = resolve({})
    if "@" not in f"{settings.contact}{settings.user_agent}":
        raise UsageError(
            "EDGAR asks every program for a contact. Fix: LONGSHORE_CONTACT=you@example.org in .env, with "
            "an address that you read"
        )


def _read(name: str) -> str:
    """Return a variable of the process, else of `.env`, else an empty text."""
    if name in os.environ:
        return os.environ[name]
    dotenv = Path(DOTENV)
    return (read_dotenv(dotenv) if dotenv.is_file() else {}).get(name) or ""
