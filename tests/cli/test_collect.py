"""`longshore collect`: results in a folder as they come (A1, A13)."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.waiting import wait_until

from longshore import new_job, open_queue
from longshore.cli import main
from longshore.lease import Want, WorkerId
from longshore.outcome import Completed, Settlement

Says = Callable[..., str]


async def _put(url: str, completed: int, pending: int = 0, *, first: int = 0) -> None:
    queue = await open_queue(url)
    numbers = range(first, first + completed + pending)
    await queue.submit([new_job("page", {"n": n}, run="r", key=str(n)) for n in numbers])
    leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=completed)) if completed else []
    await queue.settle([Settlement(lease, Completed({"n": lease.job.payload["n"]})) for lease in leases])
    await queue.close()


def put(url: str, completed: int, pending: int = 0, *, first: int = 0) -> None:
    asyncio.run(_put(url, completed, pending, first=first))


def found(path: Path) -> list[int]:
    return sorted(json.loads(line)["result"]["n"] for line in path.read_text().splitlines())


def test_only_what_is_new_is_appended(here: Path, says: Says) -> None:
    put("sqlite:///.longshore/queue.db", 3, 2)
    out = says("collect", "r")
    assert out.splitlines()[1].split() == ["3", "3", "0", "2", "r", "collected/r.jsonl"]
    put("sqlite:///.longshore/queue.db", 2)
    [run] = json.loads(says("collect", "r", "--json"))["runs"]
    assert run == {
        "run": "r",
        "new": 2,
        "collected": 5,
        "file": "collected/r.jsonl",
        "failed": 0,
        "remaining": 0,
    }
    assert found(here / "collected" / "r.jsonl") == [0, 1, 2, 3, 4]


def test_a_repository_is_packed_as_it_is_collected(here: Path, says: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    subprocess.run(["git", "init", "--quiet", "--bare", "queue.git"], check=True)
    put("./queue.git", 4, 1)
    queue = ("--queue", "./queue.git", "--into", "got")
    out = says("collect", "r", *queue, "--archive-number", "3")
    assert re.search(r"archive: 4 jobs packed now; 4 jobs, [1-9]\d+ bytes in 1 file", out)
    facts = json.loads(says("collect", "r", *queue, "--archive-number", "3", "--json"))
    assert facts["runs"][0]["new"] == 0
    assert facts["archive"]["packed"] == 0
    assert facts["archive"]["jobs"] == 4
    assert found(here / "got" / "r.jsonl") == [0, 1, 2, 3]


def test_following_takes_results_as_they_come_and_ends_with_the_run(shell: Shell) -> None:
    url = f"sqlite:///{shell.folder}/queue.db"
    put(url, 1, 3)
    file = shell.folder / "collected" / "r.jsonl"
    with shell.start("collect", "r", "--follow", LONGSHORE_QUEUE=url, LONGSHORE_POLL_INTERVAL="0.05") as following:
        wait_until(lambda: file.exists() and len(found(file)) == 1)
        put(url, 1)
        wait_until(lambda: len(found(file)) == 2)
        put(url, 2)
        out, err = following.communicate(timeout=60)
    assert following.returncode == 0, err
    assert found(file) == [0, 1, 2, 3]
    assert out.splitlines()[1].split()[:4] == ["4", "4", "0", "0"]


def test_a_collector_that_is_killed_is_gone_on_with(shell: Shell) -> None:
    url = f"sqlite:///{shell.folder}/queue.db"
    put(url, 3, 1)
    file = shell.folder / "collected" / "r.jsonl"
    with shell.start("collect", "r", "--follow", LONGSHORE_QUEUE=url) as following:
        wait_until(lambda: file.exists() and len(found(file)) == 3)
        refused = shell("collect", "r", LONGSHORE_QUEUE=url)
        assert refused.returncode == 2
        assert "Another `longshore collect`" in refused.stderr
        following.send_signal(signal.SIGKILL)
    put(url, 1)
    [run] = json.loads(shell("collect", "r", "--json", LONGSHORE_QUEUE=url).stdout)["runs"]
    assert run["collected"] == 4
    assert found(file) == [0, 1, 2, 3]


def test_what_cannot_be_collected_is_refused(here: Path, refused: Callable[..., str]) -> None:
    put("sqlite:///.longshore/queue.db", 1)
    assert "There is no run 's'" in refused("collect", "r", "s")
    assert not (here / "collected").exists()
    assert "--archive-age cannot be 'x'" in refused("collect", "r", "--archive-age", "x")
    assert "--archive-number cannot be -1" in refused("collect", "r", "--archive-number", "-1")
    assert main(["collect", "r"]) == 0
