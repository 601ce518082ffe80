"""The verbs that submit, look and steer, on a real SQLite queue."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longshore.cli import main
from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Failed, Outcome, Settlement
from longshore.runs.submit.batches import BATCH

from .conftest import Shell

COUNTS = ("pending", "claimed", "completed", "failed", "cancelled", "remaining")
ANSI = re.compile(r"\x1b\[")
Says = Callable[..., str]


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Says:
    """Run a command that must succeed, and give what it printed."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        code = main(arguments)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run


@pytest.fixture
def fill(here: Path) -> Callable[..., None]:
    """Put jobs of two runs into the default queue and settle some of them."""
    timed_out = Failed(Failure(error_type="timeout", message="too slow", exception="x.TimedOutError", retryable=False))
    refused = Failed(Failure(error_type="connection", message="refused", exception="ConnectionError", retryable=False))

    async def put() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        await queue.submit([new_job("page", {"url": f"https://a.org/{n}"}, run="one") for n in range(5)])
        await queue.submit([new_job("doc", {"n": n}, run="two", partition="CA") for n in range(3)])
        leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=4, run="one"))
        outcomes: list[Outcome] = [Completed({"ok": True}), timed_out, refused]
        await queue.settle([Settlement(lease, o, 0.5) for lease, o in zip(leases[:3], outcomes, strict=True)])
        await queue.close()

    return lambda: asyncio.run(put())


def test_submit_prints_the_run_and_what_was_new(here: Path, says: Says) -> None:
    (here / "urls.txt").write_text("https://a.org/1\nhttps://a.org/2\nhttps://a.org/1\n")
    first = json.loads(says("submit", "page", "--urls-file", "urls.txt"))
    assert first.keys() == {"run_id", "submitted", "duplicates"}
    assert re.fullmatch(r"\d{8}_\d{6}(_\d+)?", first["run_id"])
    assert (first["submitted"], first["duplicates"]) == (2, 1)
    again = json.loads(says("submit", "page", "--urls-file", "urls.txt", "--run", first["run_id"]))
    assert again == {"run_id": first["run_id"], "submitted": 0, "duplicates": 3}


def test_submit_takes_priority_and_partition_for_all(here: Path, says: Says) -> None:
    (here / "jobs.jsonl").write_text('{"n": 1}\n')
    arguments = ("--run", "r", "--priority", "-3", "--partition", "CA")
    says("submit", "doc", "--jobs-file", "jobs.jsonl", *arguments)
    [job] = json.loads(says("jobs", "--json"))
    assert (job["kind"], job["payload"], job["priority"], job["partition"]) == ("doc", {"n": 1}, -3, "CA")


def test_submit_reads_standard_input_and_says_how_much_a_bad_line_left(shell: Shell) -> None:
    done = shell("submit", "page", "--urls-file", "-", "--run", "r", stdin="https://a.org/1\nhttps://a.org/2\n")
    assert json.loads(done.stdout) == {"run_id": "r", "submitted": 2, "duplicates": 0}
    lines = "".join(f"https://a.org/{n}\n" for n in range(BATCH + 200))
    done = shell("submit", "page", "--urls-file", "-", "--run", "s", stdin=f"{lines}oops\n")
    assert done.returncode == 2
    assert f"standard input, line {BATCH + 201}" in done.stderr
    assert f"{BATCH:,} jobs were submitted to run s" in done.stderr
    assert shell.json("status", "s", "--json")["pending"] == BATCH
    done = shell("submit", "page", "--urls-file", "-", "--run", "t", stdin="oops\n")
    assert (done.returncode, done.stderr[-24:]) == (2, " Nothing was submitted.\n")
    done = shell("submit", "page", "--urls-file", "-", "--run", "t", stdin="")
    assert "There are no jobs in standard input." in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_submission_that_waits_for_its_input(shell: Shell) -> None:
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "longshore", "submit", "page", "--urls-file", "-"],
        cwd=shell.folder,
        env=shell.environment,
        stdin=read,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    # The queue's file is there when it is about to read.
    while not (shell.folder / ".longshore" / "queue.db").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=20)
    os.close(read)
    os.close(write)
    assert process.returncode == 130
    assert error == "longshore: interrupted\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_without_room_is_one_message(shell: Shell, fill: Callable[[], None]) -> None:
    fill()
    command = [sys.executable, "-m", "longshore", "status"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, cwd=shell.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "longshore: Standard output cannot be written to: No space left on device.\n"


def test_status_counts_every_run_and_one(fill: Callable[[], None], says: Says) -> None:
    fill()
    whole = json.loads(says("status", "--json"))
    assert [whole[name] for name in COUNTS] == [4, 1, 1, 2, 0, 5]
    assert [run["run"] for run in whole["runs"]] == ["one", "two"]
    one = json.loads(says("status", "one", "--json"))
    assert [one[name] for name in COUNTS] == [1, 1, 1, 2, 0, 2]
    text = says("status")
    assert text.splitlines()[0].split() == ["run", *COUNTS, "done"]
    assert text.splitlines()[1].split() == ["one", "1", "1", "1", "2", "0", "2", "60%"]
    assert says("status", "two").splitlines()[1].split()[:3] == ["doc", "CA", "3"]


def test_status_does_not_call_done_what_failed_or_was_cancelled(fill: Callable[[], None], says: Says) -> None:
    fill()
    says("cancel", "--run", "one", "--yes")
    assert says("status").splitlines()[1].endswith("  finished, 2 failed, 2 cancelled")
    says("cancel", "--run", "two", "--yes")
    assert says("status").splitlines()[2].endswith("  finished, 3 cancelled")


def test_jobs_without_a_run_are_called_so(here: Path, says: Says) -> None:
    async def put() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        await queue.submit([new_job("page", {"url": "https://a.org/"})])
        await queue.close()

    asyncio.run(put())
    assert says("status").splitlines()[1].startswith("(no run)  ")
    assert "  (no run)  page  " in says("jobs")


def test_jobs_are_listed_by_what_is_asked_for(fill: Callable[[], None], says: Says) -> None:
    fill()

    def ids(*filters: str) -> list[str]:
        return [job["id"] for job in json.loads(says("jobs", "--json", *filters))]

    everything = ids()
    assert len(everything) == 8
    assert ids("--limit", "3") == everything[:3]
    assert ids("--limit", "0") == everything
    assert len(ids("--run", "two")) == len(ids("--kind", "doc")) == len(ids("--partition", "CA")) == 3
    assert len(ids("--state", "failed")) == 2
    assert len(ids("--state", "failed,completed")) == 3
    assert len(ids("--error", "timed*")) == len(ids("--error", "refused")) == 1
    assert ids("--error", "nothing like it") == []
    text = says("jobs", "--state", "failed")
    assert "timeout: too slow" in text
    assert "https://a.org/1" in text
    assert not ANSI.search(text)
    assert says("jobs", "--error", "nothing like it") == "No such jobs.\n"
    # What has no URL is known by its fields, not by the hash that is its key.
    assert says("jobs", "--run", "two").splitlines()[3].split() == ["8", "two", "doc", "pending", "0/4", "n=2"]


def test_show_tells_everything_about_a_job(fill: Callable[[], None], says: Says) -> None:
    fill()
    [failed, _] = json.loads(says("jobs", "--state", "failed", "--json"))
    whole: dict[str, Any] = json.loads(says("show", failed["id"], "--json"))
    assert whole["failure"]["error_type"] == "timeout"
    assert [attempt["worker"] for attempt in whole["history"]] == ["w"]
    assert (whole["envelope"]["success"], whole["envelope"]["error_type"]) == (False, "timeout")
    text = says("show", failed["id"])
    assert "https://a.org/1" in text
    assert "too slow" in text
    [pending] = json.loads(says("jobs", "--run", "one", "--state", "pending", "--json"))
    assert json.loads(says("show", pending["id"], "--json"))["envelope"] is None
    [completed] = json.loads(says("jobs", "--state", "completed", "--json"))
    assert json.loads(says("show", completed["id"], "--json"))["envelope"]["data"] == {"ok": True}
    assert '"ok": true' in says("show", completed["id"])


def test_show_ends_with_the_end_of_a_long_traceback_and_keeps_it_once(here: Path, says: Says) -> None:
    long = "".join(f"  line {n} of it\n" for n in range(60)) + "ValueError: no\n"
    failed = Failed(Failure(error_type="unknown", message="no", exception="ValueError", traceback=long))

    async def put() -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        await queue.submit([new_job("page", {"url": "https://a.org/"}, run="r", max_attempts=2)])
        for _ in range(2):
            [lease] = await queue.claim(Want(worker=WorkerId.new("w")))
            await queue.settle([Settlement(lease, failed, 0.5)])
        await queue.close()

    asyncio.run(put())
    text = says("show", "1")
    assert "traceback (the last 15 of 61 lines; --json shows all)\n    line 46 of it\n" in text
    assert text.endswith("    line 59 of it\n  ValueError: no\n")
    whole = says("show", "1", "--json")
    assert whole.count("line 3 of it") == 1
    assert json.loads(whole)["envelope"]["traceback"] == long
    says("retry", "1")
    waiting = says("show", "1", "--json")
    assert waiting.count("line 3 of it") == 1


def test_retry_gives_failed_jobs_their_attempts_again(fill: Callable[[], None], says: Says) -> None:
    fill()
    assert says("retry", "--run", "one", "--error", "*refused*", "--yes") == "1 job is pending again.\n"
    [failed] = json.loads(says("jobs", "--state", "failed", "--json"))
    # Whoever names a job by its id means it: nobody is asked.
    assert says("retry", failed["id"]) == "1 job is pending again.\n"
    assert says("retry", "--run", "one", "--yes") == "No such jobs: nothing to retry.\n"


def test_a_job_that_is_past_it_is_said_to_be_there(fill: Callable[[], None], says: Says) -> None:
    fill()
    assert says("retry", "5") == "Job 5 is pending: nothing to retry.\n"
    assert says("cancel", "1", "2") == "Job 1 is completed, job 2 is failed: nothing to cancel.\n"
    assert says("retry", "2", "--error", "refused") == "No such jobs: nothing to retry.\n"
    assert says("cancel", "5") == "1 job is cancelled.\n"


def test_retry_leaves_what_was_cancelled_unless_it_is_asked_for(fill: Callable[[], None], says: Says) -> None:
    fill()
    assert says("cancel", "--run", "two", "--yes") == "3 jobs are cancelled.\n"
    assert says("retry", "--run", "two", "--yes") == "No such jobs: nothing to retry.\n"
    assert says("retry", "--run", "two", "--state", "cancelled", "--yes") == "3 jobs are pending again.\n"


def test_cancel_takes_what_is_pending_and_what_is_claimed(fill: Callable[[], None], says: Says) -> None:
    fill()
    assert says("cancel", "--run", "one", "--older-than", "1h", "--yes") == "No such jobs: nothing to cancel.\n"
    assert says("cancel", "--kind", "page", "--yes") == "2 jobs are cancelled.\n"
    one = json.loads(says("status", "one", "--json"))
    assert (one["cancelled"], one["remaining"]) == (2, 0)


def test_nobody_to_ask_means_no_change(fill: Callable[[], None], shell: Shell, says: Says) -> None:
    fill()
    done = shell("cancel", "--run", "two")
    assert done.returncode == 2
    assert "This would cancel 3 jobs" in done.stderr
    assert "--yes" in done.stderr
    assert json.loads(says("status", "two", "--json"))["pending"] == 3


def test_config_says_each_value_and_where_it_came_from(here: Path, says: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_RUNS", "5")
    (here / ".env").write_text("LONGSHORE_QUEUE=postgresql://me:hunter2@db/x\n")
    (here / "longshore.toml").write_text("[longshore]\nworkers = 3\n")
    text = says("config")
    assert "hunter2" not in text
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines()}
    assert rows["queue"] == "postgresql://me:***@db/x LONGSHORE_QUEUE (.env)"
    assert rows["max_work"] == "5 MAX_RUNS (environment)"
    assert rows["workers"] == "3 workers (longshore.toml)"
    assert rows["lease_seconds"] == "300 default"
    whole = json.loads(says("config", "--json"))
    assert whole["max_work"] == {
        "value": 5,
        "source": "environment",
        "name": "MAX_RUNS",
        "variables": ["LONGSHORE_MAX_WORK", "MAX_WORK_ORDERS", "MAX_RUNS"],
    }
    assert "hunter2" not in json.dumps(whole)


@pytest.mark.ledger("E3")
def test_help_says_which_variables_there_are_and_which_are_set_by_whom(shell: Shell) -> None:
    done = shell("work", "--help", POLL_INTERVAL="4")
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout).split())
    assert "[LONGSHORE_POLL_INTERVAL] [default: 10] Now 4, from POLL_INTERVAL (environment)." in text
    assert "[LONGSHORE_CONCURRENCY] [default: 8]" in text
    assert "[LONGSHORE_LEASE_SECONDS] [default: 300]" in text
    # Names from older systems work, and are listed in the docs and by `config`.
    assert not any(old in text for old in ("--api-url", "--max-failures", "--environment", "GITHUB_REPO_URL"))
    assert text.count("Now ") == 1
    broken = shell("work", "--help", POLL_INTERVAL="soon")
    assert broken.returncode == 0


def test_help_and_version_are_there(says: Says) -> None:
    text = says("--help")
    for verb in ["run", "submit", "work", "status", "jobs", "show", "retry", "cancel", "config", "demo", "init"]:
        assert re.search(rf"\b{verb}\b", text)
    assert says("--version").startswith("longshore ")
    assert "<bool>" not in text


def test_help_of_a_verb_names_its_arguments_and_its_own_defaults(here: Path, says: Says) -> None:
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", says("run", "--help")).split())
    assert "Usage: longshore run [OPTIONS] FILE [URL]... Submit" in text
    assert "How many worker processes 'run' and 'fleet' start." in text
    # Shorter than that of a worker of its own.
    assert "[LONGSHORE_LEASE_SECONDS] [default: 15]" in text
    assert "<bool>" not in text


def test_a_reader_that_leaves_early_hears_no_complaint(fill: Callable[[], None], shell: Shell) -> None:
    fill()
    shell.urls(3000)
    assert shell("submit", "page", "--urls-file", "urls.txt").returncode == 0
    process = shell.start("jobs", "--limit", "0", "--json")
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline() == "[\n"
    process.stdout.close()
    assert process.wait(timeout=20) == 141
    assert process.stderr.read() == ""
    process.stderr.close()
