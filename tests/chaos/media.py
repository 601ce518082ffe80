"""The media of trials: where the queue lies, how its stored jobs are counted, and the faults that only it can have."""

from __future__ import annotations

import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import psycopg
from tests.services.postgres import PostgresServer

Switch = Callable[[bool], None]
"""Switches a fault on (True) or off."""


class TrialMedium(ABC):
    """A queue for one trial."""

    name: str
    lease = 3
    """Seconds of a lease: long enough that a healthy worker of a busy machine renews it in time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the queue."""

    def stored(self) -> dict[str, int] | None:
        """Count the stored jobs by state without the code of the medium; None if that is not possible."""
        return None

    def faults(self) -> Mapping[str, Switch]:
        """Return the faults that only this medium has."""
        return {}

    def back_up(self) -> Callable[[], None] | None:
        """Copy the stored queue, and return a function that puts the copy back while processes run.

        None if that cannot be done at one stroke.
        """
        return None

    def close(self) -> None:
        """Delete what lies outside the trial's folder."""
        return


class SqliteMedium(TrialMedium):
    """A SQLite file."""

    name = "sqlite"
    _STATES = ("pending", "pending", "claimed", "completed", "failed", "cancelled")

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/queue.db"

    def stored(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        with closing(sqlite3.connect(self.folder / "queue.db")) as db:
            for state, number in db.execute("SELECT state, count(*) FROM job GROUP BY state"):
                found[self._STATES[state]] += number
        return dict(found)

    def back_up(self) -> Callable[[], None]:
        file, saved = self.folder / "queue.db", self.folder / "saved.db"
        _copy_database(file, saved)
        return lambda: _copy_database(saved, file)


def _copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target, timeout=30)) as write:
        read.backup(write)


class DirectoryMedium(TrialMedium):
    """A folder of files."""

    name = "directory"
    _STATES: Mapping[str, str] = {"processing": "claimed"}

    @property
    def url(self) -> str:
        return f"dir://{self.folder}/queue"

    def stored(self) -> dict[str, int]:
        folder = self.folder / "queue"
        found = {
            self._STATES.get(name, name): sum(1 for _ in (folder / name).rglob("[0-9]*.json"))
            for name in ("pending", "processing", "completed", "failed", "cancelled")
        }
        return {state: number for state, number in found.items() if number}


class PostgresMedium(TrialMedium):
    """A PostgreSQL server of its own."""

    name = "postgres"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = PostgresServer()

    @property
    def url(self) -> str:
        return self._server.url

    def faults(self) -> Mapping[str, Switch]:
        return {"server crashed": self._crash, "read-only server": self._read_only}

    def _crash(self, on: bool) -> None:
        if on:
            self._server.restart("immediate")

    def _read_only(self, on: bool) -> None:
        with psycopg.connect(self._server.url, autocommit=True) as db:
            db.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
            db.execute("SELECT pg_reload_conf()")

    def close(self) -> None:
        self._server.remove()


class GitMedium(TrialMedium):
    """A bare repository on this machine."""

    name = "git"
    lease = 8

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._repository = folder / "queue.git"
        subprocess.run(["git", "init", "--quiet", "--bare", str(self._repository)], check=True)

    @property
    def url(self) -> str:
        return f"git+file://{self._repository}"

    def faults(self) -> Mapping[str, Switch]:
        return {"remote not found": self._hide}

    def _hide(self, on: bool) -> None:
        hidden = self._repository.with_suffix(".hidden")
        if on:
            self._repository.rename(hidden)
        elif hidden.exists():
            hidden.rename(self._repository)


MEDIA: Mapping[str, type[TrialMedium]] = {
    each.name: each for each in (SqliteMedium, DirectoryMedium, PostgresMedium, GitMedium)
}
