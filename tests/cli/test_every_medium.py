"""A whole run by the commands alone, from its start to its results: the same words on every medium, the same bytes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from secrets import token_hex

import pytest
from tests.services.postgres import PostgresServer

from .conftest import Shell

JOBS = 30
REGISTRY = """
[scrapers.India]
handler = "pages.py"
mode = "distributed"
urls = "urls.txt"
"""
# Some need two attempts; results are of every kind.
PAGES = """
from longshore import handler

@handler("page", timeout=30, retries=3, backoff=0)
async def page(job, kit):
    number = int(job.payload["url"].rpartition("/")[2])
    if number % 7 == 3 and job.attempts == 0:
        raise ConnectionError("not yet")
    return [{"number": number, "name": "Zoë", "half": number / 2}, [number, None, True], "", None][number % 4]
"""


@pytest.mark.ledger("F1")
def test_a_run_with_two_workers_gives_the_same_results_on_every_medium(
    shell: Shell, tmp_path: Path, server: PostgresServer
) -> None:
    """F1: start, two workers, wait, export."""
    subprocess.run(["git", "init", "--bare", "-q", str(tmp_path / "queue.git")], check=True)
    shell.write("longshore.toml", REGISTRY)
    shell.write("pages.py", PAGES)
    shell.urls(JOBS)
    queues = {
        "sqlite": f"sqlite:///{tmp_path}/queue.db",
        "postgres": f"{server.url}?schema=same_{token_hex(4)}",
        "directory": f"dir://{tmp_path}/queue",
        "git": f"git+file://{tmp_path}/queue.git",
    }
    found = {}
    for medium, queue in queues.items():
        shell.environment["LONGSHORE_QUEUE"] = queue
        started = shell.json("start", "India", "--run", "same")
        assert started["enqueued"] == JOBS, medium
        words = shlex.split(started["worker_command"])
        workers = [shell.start(*words[words.index("work") :]) for _ in range(2)]
        watched = shell("wait", "same", "--timeout", "80s")
        for worker in workers:
            _, said = worker.communicate(timeout=90)
            assert worker.returncode == 0, (medium, said)
        assert watched.returncode == 0, (medium, watched.stderr)
        exported = shell("export", "same")
        assert exported.returncode == 0, (medium, exported.stderr)
        found[medium] = sorted(exported.stdout.splitlines())
    assert len(set(found["sqlite"])) == JOBS
    assert {medium: lines == found["sqlite"] for medium, lines in found.items()} == dict.fromkeys(queues, True)
