"""Nothing is lost if a queue is migrated while a worker of the previous version is at work on it.

On SQLite it finishes its work. On PostgreSQL it stops with a message, and its jobs come back when its leases expire.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.cli.publishing import make_environment
from tests.services.postgres import PostgresServer
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PREVIOUS = "4d244f51f2ded288e5c6f90a2272b6bbb3127c48"
"""It stands for the previous release until there is one: version 4 of the tables, on SQLite and on PostgreSQL."""

HANDLERS = """
import time
from pathlib import Path
from longshore import handler

@handler("page", timeout=300)
def page(job, kit):
    number = job.payload["url"].rsplit("/", 1)[1]
    if number == "3":
        Path("under-way").touch()
        while not Path("migrated").exists():
            time.sleep(0.05)
    with Path("executed.txt").open("a") as log:
        log.write(number + "\\n")
    return number
"""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `longshore` command of the previous version, in an environment of its own."""
    folder = tmp_path_factory.mktemp("previous")
    git = shutil.which("git") or "git"
    archive = subprocess.run([git, "archive", PREVIOUS], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode != 0:
        pytest.skip("this copy has no history: clone the whole repository to build the previous version")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as opened:
        opened.extractall(folder / "source", filter="data")
    return make_environment(folder / "environment", folder / "source")


@pytest.fixture(params=["sqlite", "postgres"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/queue.db"
    server: PostgresServer = request.getfixturevalue("server")
    return f"{server.url}?schema=upgrade_{secrets.token_hex(4)}"


def test_work_goes_on_while_the_queue_is_migrated(previous: Path, queue: str, tmp_path: Path) -> None:
    ours = Path(sys.executable).parent / "longshore"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
    environment |= {"LONGSHORE_QUEUE": queue, "LONGSHORE_LEASE_SECONDS": "6"}

    def run(command: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(command), *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "urls.txt").write_text("".join(f"https://a.org/{number}\n" for number in range(1, 21)))
    submitted = run(previous, "submit", "page", "--urls-file", "urls.txt", "--run", "r")
    assert submitted.returncode == 0, submitted.stderr
    words = [str(previous), "work", "handlers.py", "--run", "r", "--until-done", "--concurrency", "1"]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as old:
        wait_until((tmp_path / "under-way").exists)
        migrated = run(ours, "status", "r", "--json")
        assert migrated.returncode == 0, migrated.stderr
        more = run(ours, "submit", "page", "--url", "https://a.org/21", "--run", "r")
        assert more.returncode == 0, more.stderr
        (tmp_path / "migrated").touch()
        output = old.communicate(timeout=120)[0].decode()
    assert old.returncode == (0 if queue.startswith("sqlite") else 1), output
    assert "Traceback" not in output

    late = run(previous, "status", "r")
    assert late.returncode == 1
    assert re.search("was made by a newer Longshore|Fix: upgrade Longshore on this machine", late.stderr)
    assert "Traceback" not in late.stderr

    rest = run(ours, "work", "handlers.py", "--run", "r", "--until-done")
    assert rest.returncode == 0, rest.stderr
    jobs = json.loads(run(ours, "jobs", "--run", "r", "--json").stdout)
    assert [job["state"] for job in jobs] == ["completed"] * 21
    executed = (tmp_path / "executed.txt").read_text().split()
    if queue.startswith("sqlite"):
        assert sorted(executed, key=int) == [str(number) for number in range(1, 22)]
    else:
        assert set(executed) == {str(number) for number in range(1, 22)}
