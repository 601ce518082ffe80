"""Records in a database: every worker writes to it, and export and reparse read from it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.services.postgres import PASSWORD, PostgresServer
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

NUMBERS = count()
HANDLERS = """
import os
from pathlib import Path
from longshore import handler

def found(job, kit):
    for n in range(3):
        kit.emit({"n": n, "url": job.payload["url"]}, kind="item")
    return {"ok": True}

@handler("choosy", timeout=60, keep=lambda record, kind: ["odd\\0one", True, "too many"][record["n"]])
async def choosy(job, kit):
    return found(job, kit)

@handler("page", timeout=60)
async def page(job, kit):
    return found(job, kit)

@handler("plain", timeout=60)
def plain(job, kit):
    return found(job, kit)
"""


@pytest.fixture
def place(shell: Shell, server: PostgresServer) -> None:
    """A database for records, said in `.env`; a schema of it for each test."""
    url = f"{server.url}?schema=s{next(NUMBERS)}"
    shell.write("handlers.py", HANDLERS)
    shell.write(".env", f"LONGSHORE_RECORDS_DATABASE={url}\n")
    shell.urls(8)


def exported(shell: Shell, run: str) -> list[tuple[str, int]]:
    done = shell("export", run, "--records", "item")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [(line["data"]["url"], line["n"]) for line in lines]


ALL = sorted((f"https://a.org/{number}", n) for number in range(8) for n in range(3))


@pytest.mark.usefixtures("place")
def test_what_was_kept_and_what_was_rejected_is_counted(shell: Shell) -> None:
    done = shell("run", "handlers.py", "--kind", "choosy", "--urls-file", "urls.txt", "--run", "one", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "  records  8 item, 16 rejected (8 odd" in done.stderr
    tally = json.loads(shell("records", "one", "--json").stdout)
    assert tally == {"kept": {"item": 8}, "rejected": {"item": {"odd\0one": 8, "too many": 8}}}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("kind", ["page", "plain"])
def test_records_of_all_workers_are_in_the_database_and_nowhere_else(shell: Shell, kind: str) -> None:
    done = shell("run", "handlers.py", "--kind", kind, "--urls-file", "urls.txt", "--run", "r", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert sorted(exported(shell, "r")) == ALL
    assert not (shell.folder / ".longshore" / "records").exists()


@pytest.mark.ledger("F2", "F11")
@pytest.mark.usefixtures("place")
def test_kill_9_between_the_records_and_their_settlement_leaves_each_record_once(shell: Shell) -> None:
    """F2."""
    shell.write(
        "dying.py",
        HANDLERS
        + """
from longshore.media.sqlite.queue import SqliteQueue
settle = SqliteQueue.settle

async def dying(self, settlements):
    done = [] if os.environ["DIES"] == "before" else [await settle(self, settlements)]
    os.kill(os.getpid(), 9)
    return done

if "DIES" in os.environ:
    SqliteQueue.settle = dying
""",
    )
    assert shell("submit", "page", "--urls-file", "urls.txt", "--run", "r").returncode == 0
    work = ("work", "dying.py", "--run", "r", "--until-done", "--lease-seconds", "1", "--batch-size", "2")
    for when in ("before", "after"):
        assert shell(*work, DIES=when).returncode == -signal.SIGKILL
    done = shell(*work)
    assert done.returncode == 0, done.stderr
    assert sorted(exported(shell, "r")) == ALL
    assert shell.json("status", "r", "--json")["completed"] == 8


@pytest.mark.usefixtures("place")
def test_what_was_parsed_anew_takes_the_place_of_what_was_there(shell: Shell) -> None:
    shell.write(
        "fetching.py",
        """
from longshore import handler

@handler("page", timeout=60, robots=False)
async def page(job, kit):
    answer = await kit.http.get(job.payload["url"])
    kit.emit({"n": 1, "url": answer.text}, kind="item")
""",
    )
    shell.write(
        "serve.py",
        """
import asyncio, sys
from longshore.demo.site import Site

async def main():
    async with Site(pages=2).served() as address:
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
""",
    )
    with subprocess.Popen(
        [sys.executable, "serve.py"], cwd=shell.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as site:
        assert site.stdout is not None
        address = site.stdout.readline().strip()
        shell.write("urls.txt", f"{address}/item/1\n")
        done = shell("run", "fetching.py", "--urls-file", "urls.txt", "--run", "r", LONGSHORE_KEEP_PAGES="true")
        assert done.returncode == 0, done.stderr
        site.communicate("\n")
    [(before, _)] = exported(shell, "r")
    shell.write("fetching.py", (shell.folder / "fetching.py").read_text().replace("answer.text", "'anew'"))
    done = shell("reparse", "r", "fetching.py")
    assert done.returncode == 0, done.stderr
    assert before != "anew"
    assert [url for url, _ in exported(shell, "r")] == ["anew"]


def test_a_database_that_is_away_for_a_while_is_waited_for(shell: Shell) -> None:
    shell.write(
        "handlers.py",
        HANDLERS
        + """
import asyncio

@handler("slow", timeout=60)
async def slow(job, kit):
    Path("begun").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.05)
    return found(job, kit)
""",
    )
    shell.urls(8)
    assert shell("submit", "slow", "--urls-file", "urls.txt", "--run", "r").returncode == 0
    with PostgresServer() as server:
        shell.write(".env", f"LONGSHORE_RECORDS_DATABASE={server.url}?schema=away\n")
        worker = shell.start("work", "handlers.py", "--run", "r", "--until-done")
        wait_until((shell.folder / "begun").exists)
        server.stop()
        shell.write("go", "")
        assert worker.stderr is not None
        while "while writing outcomes" not in (line := worker.stderr.readline()):
            assert line, "it ended without saying so"
        server.start()
        worker.communicate(timeout=60)
        assert worker.returncode == 0
        assert sorted(exported(shell, "r")) == ALL


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"postgresql://u:{PASSWORD}@127.0.0.1:1/x", "Fix:"),
        ("sqlite:///records.db", "Records cannot be kept in 'sqlite:///records.db'"),
    ],
)
def test_a_database_that_cannot_be_used_stops_the_worker_before_it_begins(shell: Shell, url: str, why: str) -> None:
    shell.urls(1)
    shell("submit", "page", "--urls-file", "urls.txt", "--run", "r")
    done = shell("work", "pages.py", "--run", "r", "--until-done", LONGSHORE_RECORDS_DATABASE=url)
    assert done.returncode == 1, done.stderr
    assert why in done.stderr
    assert PASSWORD not in done.stderr
    assert "Traceback" not in done.stderr
    assert shell.json("status", "r", "--json")["pending"] == 1


@pytest.mark.usefixtures("place")
def test_a_key_that_the_database_cannot_store_fails_its_own_job_only(shell: Shell) -> None:
    shell.write("jobs.jsonl", "".join(_line(f"k{n}") for n in range(10)) + _line("nul\0key") + _line("last"))
    submitted = shell("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r")
    assert submitted.returncode == 0, submitted.stderr
    done = shell("work", "handlers.py", "--run", "r", "--until-done", "--batch-size", "4", "--concurrency", "2")
    assert done.returncode == 0, done.stderr
    [failed] = json.loads(shell("jobs", "--run", "r", "--state", "failed", "--json").stdout)
    assert failed["key"] == "nul\0key"
    assert "The records of this attempt cannot be stored: PostgreSQL cannot store" in failed["failure"]["message"]
    assert len(exported(shell, "r")) == 11 * 3


def _line(key: str) -> str:
    return json.dumps({"key": key, "payload": {"url": "https://a.org/1"}}) + "\n"
