"""Three hosts: PostgreSQL and the server on one, workers on two others; links are cut for longer than a lease."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.services.hosts import Hosts, hosts, inside
from tests.services.needing import needed
from tests.services.postgres import PostgresServer, find_binaries, free_port
from tests.waiting import wait_until

from longshore.settings import TABLE

JOBS = 24
AT_ONCE = 4
LEASE_SECONDS = 6

# A job begins, tells so in the file BEGUN, and goes on when the file of its worker is there.
HANDLERS = """
import asyncio
import os
from pathlib import Path

from longshore import handler


@handler("page", timeout=600, retries=200)
async def page(number: int, kit):
    name = os.environ["HOST_NAME"]
    with Path("begun").open("a") as begun:
        begun.write(f"{name} {number}\\n")
    while not Path(f"go-{name}").exists():
        await asyncio.sleep(0.05)
    kit.emit({"number": number})
    return {"by": name}
"""


class Fleet:
    """The commands on the three hosts, in one folder."""

    def __init__(self, folder: Path, machines: Hosts, database: PostgresServer) -> None:
        self.folder = folder
        self.machines = machines
        self._port = free_port()
        direct = database.url.replace("127.0.0.1", machines.address_for("a"))
        self.url = database.url
        ours = {name for setting in TABLE.values() for name in setting.variables}
        self._environment = {name: value for name, value in os.environ.items() if name not in ours}
        self._environment |= {"LONGSHORE_LEASE_SECONDS": str(LEASE_SECONDS), "LONGSHORE_POLL_INTERVAL": "1"}
        (folder / "held.py").write_text(HANDLERS)
        key = self("keys", "add", "workers", "--scope", "work").splitlines()[0]
        served = f"http://{machines.address_for('b')}:{self._port}/api"
        self._of_host = {
            "a": {"LONGSHORE_QUEUE": direct, "LONGSHORE_RECORDS_DATABASE": direct},
            "b": {"LONGSHORE_QUEUE": served, "LONGSHORE_API_KEY": key},
        }

    def __call__(self, *arguments: str) -> str:
        """Run a command beside the database."""
        with inside(self.machines.centre):
            done = subprocess.run(
                [sys.executable, "-m", "longshore", *arguments],
                cwd=self.folder,
                env=self._environment | self._here,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def _here(self) -> dict[str, str]:
        return {"LONGSHORE_QUEUE": self.url, "LONGSHORE_RECORDS_DATABASE": self.url}

    @contextmanager
    def server(self) -> Iterator[None]:
        command = ("serve", "--host", "0.0.0.0", "--port", str(self._port))
        with self._running(self.machines.centre, "server", self._here, *command) as process:
            yield
            assert process.poll() is None, "the server ended"

    @contextmanager
    def worker(self, host: str) -> Iterator[None]:
        """A worker on a host. It must end well when it is asked to."""
        variables = {**self._of_host[host], "HOST_NAME": host, "LONGSHORE_DATA_FOLDER": f"data-{host}"}
        command = ("work", "held.py", "--concurrency", str(AT_ONCE), "--batch-size", str(AT_ONCE), "--worker-id", host)
        with self._running(self.machines.namespace(host), host, variables, *command) as process:
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0, (self.folder / f"{host}.log").read_text()[-3000:]

    @contextmanager
    def _running(
        self, namespace: str, name: str, variables: dict[str, str], *arguments: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        with inside(namespace), (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "longshore", *arguments],
                cwd=self.folder,
                env=self._environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def submit(self, first: int) -> None:
        lines = "".join(json.dumps({"number": number}) + "\n" for number in range(first, first + JOBS))
        (self.folder / "jobs.jsonl").write_text(lines)
        self("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r")

    def go(self, host: str) -> None:
        (self.folder / f"go-{host}").touch()

    def hold(self, host: str) -> None:
        (self.folder / f"go-{host}").unlink()

    def begun(self, host: str, first: int = 0) -> set[int]:
        """The jobs that a host has begun, from this number on."""
        path = self.folder / "begun"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return {int(number) for name, number in lines if name == host and int(number) >= first}


@contextmanager
def database(machines: Hosts) -> Iterator[PostgresServer]:
    """A PostgreSQL in the centre that hosts may connect to."""
    with needed():
        find_binaries()
    # PostgreSQL does not run as root, and the folders of tests belong to root.
    folder = Path(tempfile.mkdtemp(prefix="longshore-hosts-"))
    folder.chmod(0o755)
    allowed = folder / "pg_hba.conf"
    allowed.write_text("host all all all scram-sha-256\n")
    allowed.chmod(0o644)
    with inside(machines.centre):
        server = PostgresServer(settings={"listen_addresses": "'*'", "hba_file": f"'{allowed}'"})
    try:
        yield server
    finally:
        with inside(machines.centre):
            server.remove()
        shutil.rmtree(folder)


def hold_cut_and_heal(fleet: Fleet, cut: str, other: str, first: int) -> None:
    """Cut off a host that holds jobs until the other one has done all of them; heal the link, and let it go on."""
    wait_until(lambda: len(fleet.begun(cut, first)) >= AT_ONCE and len(fleet.begun(other, first)) >= AT_ONCE)
    held = fleet.begun(cut, first)
    fleet.machines.cut(cut)
    fleet.go(other)
    # The other host gets them only when their leases have expired.
    wait_until(lambda: held <= fleet.begun(other, first))
    fleet("wait", "r")
    fleet.machines.heal(cut)
    fleet.go(cut)


@pytest.mark.ledger("D2", "F2")
def test_a_link_that_is_cut_for_longer_than_a_lease_loses_nothing_and_settles_nothing_twice(tmp_path: Path) -> None:
    with ExitStack() as stack:
        machines = stack.enter_context(hosts("a", "b"))
        fleet = Fleet(tmp_path, machines, stack.enter_context(database(machines)))
        fleet.submit(0)
        stack.enter_context(fleet.server())
        with fleet.worker("a"), fleet.worker("b"):
            # First the host that works on the database itself, then the one that works over HTTP.
            hold_cut_and_heal(fleet, "a", "b", 0)
            fleet.hold("a")
            fleet.hold("b")
            fleet.submit(JOBS)
            hold_cut_and_heal(fleet, "b", "a", JOBS)
            fleet.submit(2 * JOBS)
            fleet("wait", "r")
        status = json.loads(fleet("status", "r", "--json"))
        assert (status["completed"], status["failed"], status["remaining"]) == (3 * JOBS, 0, 0)
        results = [json.loads(line) for line in fleet("export", "r").splitlines()]
        assert sorted(each["payload"]["number"] for each in results) == list(range(3 * JOBS))
        records = [json.loads(line)["number"] for line in fleet("export", "r", "--records", "--bare").splitlines()]
        assert sorted(records) == list(range(3 * JOBS))
        # What a host had begun before it was cut off was completed by the other one.
        assert {each["result"]["by"] for each in results if each["payload"]["number"] < JOBS} == {"b"}
        assert {each["result"]["by"] for each in results if JOBS <= each["payload"]["number"] < 2 * JOBS} == {"a"}
