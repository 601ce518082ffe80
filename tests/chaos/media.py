"""The media of trials: where the queue lies, how its stored jobs are counted, and the faults that only it can have."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

import psycopg
from tests.services.postgres import PostgresServer, free_port

Switch = Callable[[bool], None]
"""Switches a fault on (True) or off."""


class TrialMedium(ABC):
    """A queue for one trial."""

    name: str
    lease = 3
    """Seconds of a lease: long enough that a healthy worker of a busy machine renews it in time."""
    poll_interval = 1
    """Seconds after which an idle worker looks again."""
    saved_at_rest = False
    """Whether it can be copied and put back only while no process touches it."""
    keeps_records = False
    """Whether the medium keeps the records of its workers itself."""
    refuses_a_backup = False
    """Whether all processes stop after it was set back, until a person decides; see `go_on_with_the_backup`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the queue."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables that a process needs to open the queue."""
        return {}

    def stored(self) -> dict[str, int] | None:
        """Count the stored jobs by state without the code of the medium; None if that is not possible."""
        return None

    def faults(self) -> Mapping[str, Switch]:
        """Return the faults that only this medium has."""
        return {}

    def back_up(self) -> Callable[[], None] | None:
        """Copy the stored queue, and return a function that puts the copy back; None if that cannot be done now."""
        return None

    def go_on_with_the_backup(self, machines: Iterable[Path]) -> None:
        """Tell the machines, which have these cache folders, to go on with an older state. No process runs."""
        return

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
    saved_at_rest = True
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

    def back_up(self) -> Callable[[], None]:
        folder, saved = self.folder / "queue", self.folder / "saved"
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(folder, saved, symlinks=True)

        def restore() -> None:
            newer = self.folder / "newer"
            shutil.rmtree(newer, ignore_errors=True)
            folder.rename(newer)
            saved.rename(folder)

        return restore


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

    def back_up(self) -> Callable[[], None]:
        self._server.stop("immediate")
        self._server.save()
        self._server.start()

        def restore() -> None:
            self._server.stop("immediate")
            self._server.restore()
            self._server.start()

        return restore

    def close(self) -> None:
        self._server.remove()


class GitMedium(TrialMedium):
    """A bare repository on this machine."""

    name = "git"
    lease = 8
    poll_interval = 2  # a look starts several processes
    refuses_a_backup = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._repository = folder / "queue.git"
        subprocess.run(["git", "init", "--quiet", "--bare", str(self._repository)], check=True)

    @property
    def url(self) -> str:
        return f"git+file://{self._repository}"

    def faults(self) -> Mapping[str, Switch]:
        return {"remote not found": self._hide}

    def back_up(self) -> Callable[[], None] | None:
        if not self._repository.exists():
            return None
        names = ("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
        saved = dict(line.split() for line in self._git(*names).splitlines())

        def restore() -> None:
            for name, commit in saved.items():
                self._git("update-ref", name, commit)

        return restore

    def go_on_with_the_backup(self, machines: Iterable[Path]) -> None:
        """Delete the mirrors: each machine that has seen newer commits refuses the branch."""
        for machine in machines:
            shutil.rmtree(machine / "longshore/git", ignore_errors=True)

    def _git(self, *arguments: str) -> str:
        order = ["git", "-C", str(self._repository), *arguments]
        return subprocess.run(order, check=True, capture_output=True, text=True).stdout

    def _hide(self, on: bool) -> None:
        hidden = self._repository.with_suffix(".hidden")
        if on:
            self._repository.rename(hidden)
        elif hidden.exists():
            hidden.rename(self._repository)


class HttpMedium(SqliteMedium):
    """A SQLite file behind `longshore serve`, which has a machine of its own: its clock is not that of the trial."""

    name = "http"
    keeps_records = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()
        self._home = folder / "server"
        self._home.mkdir()
        self._server = self._started()
        self._key = (self._home / ".longshore/server/admin.key").read_text().strip()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/api"

    @property
    def variables(self) -> Mapping[str, str]:
        return {"LONGSHORE_API_KEY": self._key}

    def _started(self) -> subprocess.Popen[bytes]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
        ours["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
        served = ("--queue", super().url, "--port", str(self._port))
        log = self._home / "errors.log"
        with log.open("ab") as errors:
            server = subprocess.Popen(
                [sys.executable, "-m", "longshore", "serve", *served],
                cwd=self._home,
                env=ours,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert server.stdout is not None
        assert b"Serving" in server.stdout.readline(), log.read_text()
        return server

    def faults(self) -> Mapping[str, Switch]:
        return {"server killed": self._kill, "server stands still": self._stand_still}

    def _kill(self, on: bool) -> None:
        if on:
            self._end()
        else:
            self._server = self._started()

    def _stand_still(self, on: bool) -> None:
        self._server.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def back_up(self) -> Callable[[], None]:
        restore_file = super().back_up()

        def restore() -> None:
            self._end()
            for suffix in ("-wal", "-shm"):
                (self.folder / f"queue.db{suffix}").unlink(missing_ok=True)
            restore_file()
            self._server = self._started()

        return restore

    def _end(self) -> None:
        self._server.kill()
        self._server.communicate()

    def close(self) -> None:
        self._end()


MEDIA: Mapping[str, type[TrialMedium]] = {
    each.name: each for each in (SqliteMedium, DirectoryMedium, PostgresMedium, GitMedium, HttpMedium)
}
