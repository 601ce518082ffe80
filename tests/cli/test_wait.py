"""`longshore wait`: progress in a pipe and on a terminal, exit codes, leaving."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from tests.waiting import wait_until

from longshore.cli import main
from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.sqlite.queue import SqliteQueue
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Count
from longshore.runs.control.growth_limits import LeftOut
from longshore.runs.estimate.estimate import Basis, Binding, Estimate, Evidence
from longshore.runs.estimate.recorded_runs import read_recording
from longshore.runs.submit.batches import BATCH
from longshore.runs.watch.active_workers import ActiveWorkers
from longshore.runs.watch.blockers import Blockers
from longshore.runs.watch.watcher import RunSnapshot
from longshore.ui.wait_view import picture, progress_line, wait_view

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

FILINGS = """
from longshore import handler


@handler("filing", retries=0)
async def filing(name: str):
    if name == "2024/1.xml":
        raise ValueError("not a filing")
    return name
"""
BROKEN = Failed(Failure("processing", "no title", exception="x.TitleError", retryable=False))


@pytest.fixture
def fill(here: Path) -> Callable[..., None]:
    """A run of so many jobs, of which so many completed and failed."""

    async def put(jobs: int, completed: int, failed: int) -> None:
        queue = await open_queue("sqlite:///.longshore/queue.db")
        await queue.submit([new_job("page", {"url": f"https://a.org/{n}"}, run="r") for n in range(jobs)])
        leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=completed + failed))
        outcomes = [Completed()] * completed + [BROKEN] * failed
        await queue.settle([Settlement(lease, each, 0.5) for lease, each in zip(leases, outcomes, strict=True)])
        await queue.close()

    return lambda jobs, completed, failed=0: asyncio.run(put(jobs, completed, failed))


def test_a_run_that_completed_ends_with_0(fill: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    fill(3, 3)
    assert main(["wait", "r"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "✓ run r: 3 completed, 0 failed" in err


def test_a_run_with_failures_ends_with_1_and_says_what_failed(
    fill: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fill(3, 1, 2)
    assert main(["wait", "r"]) == 1
    err = capsys.readouterr().err
    assert "1 completed, 2 failed" in err
    assert "2 × processing (TitleError)" in err
    assert "retry --state failed --run r" in err


def test_a_run_of_which_the_rest_was_cancelled_ends_with_3(fill: Callable[..., None]) -> None:
    fill(3, 1)
    assert main(["cancel", "--run", "r", "--yes"]) == 0
    assert main(["wait", "r"]) == 3


def test_a_run_that_is_not_over_in_time_ends_with_4(
    fill: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fill(3, 1)
    assert main(["wait", "r", "--timeout", "0.1s"]) == 4
    err = capsys.readouterr().err
    assert "1 of 3 done" in err
    assert "the run goes on" in err


def test_nobody_at_work_is_said(fill: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    fill(3, 1)
    main(["wait", "r", "--timeout", "1.5s"])
    assert "No worker works on it. To start one: longshore work FILE" in capsys.readouterr().err


def test_json_says_how_it_ended(fill: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    fill(3, 1, 2)
    assert main(["wait", "r", "--json"]) == 1
    ended = json.loads(capsys.readouterr().out)
    assert (ended["run"], ended["ended"], ended["completed"], ended["failed"]) == ("r", "failed", 1, 2)
    assert ended["failures"] == [{"error_type": "processing", "exception": "TitleError", "jobs": 2}]
    fill(9, 1)
    assert main(["wait", "r", "--json", "--timeout", "0s"]) == 4
    ended = json.loads(capsys.readouterr().out)
    assert (ended["ended"], ended["estimate"]["binds"]) == ("timeout", "nobody")


@pytest.mark.parametrize("left", [[], [Count(run="r", kind="page")]])
def test_a_run_that_is_pruned_while_it_is_watched_ends_with_1(
    fill: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, left: list[Count]
) -> None:
    fill(3, 1)
    stats, looks = SqliteQueue.stats, iter(range(2))

    async def pruned(self: SqliteQueue, run: str | None = None) -> list[Count]:
        return left if next(looks, None) is None else await stats(self, run)

    monkeypatch.setattr(SqliteQueue, "stats", pruned)
    assert main(["wait", "r", "--json"]) == 1
    ended = json.loads(capsys.readouterr().out)
    assert (ended["ended"], ended["remaining"], "failures" in ended, "estimate" in ended) == ("gone", 2, False, False)
    looks = iter(range(2))
    assert main(["wait", "r"]) == 1
    assert "run r is gone: its jobs have been pruned" in capsys.readouterr().err


def test_a_run_that_is_not_there_is_named_with_what_there_is(
    fill: Callable[..., None], refused: Callable[..., str]
) -> None:
    fill(1, 0)
    assert "There is no run 's' in sqlite:///.longshore/queue.db. The latest are: r." in refused("wait", "s")


def test_who_submits_may_wait_and_whoever_submits_again_picks_the_run_up(shell: Shell) -> None:
    """C1: a coordinator makes jobs and waits; or leaves at once, and waits later."""
    (shell.folder / "filings/2024").mkdir(parents=True)
    for number in range(3):
        shell.write(f"filings/2024/{number}.xml", "<filing/>")
    shell.write("filings.py", FILINGS)
    command = ("submit", "filing", "--scan", "filings", "--year", "2024", "--limit", "2", "--run", "r")
    left = shell(*command)
    assert (left.returncode, left.stderr) == (0, "")
    waiting = shell.start(*command, "--wait")
    assert waiting.stdout is not None
    try:
        first = [waiting.stdout.readline() for _ in range(5)]
        assert json.loads("".join(first)) == {"run_id": "r", "submitted": 0, "duplicates": 2}
        assert waiting.poll() is None, "what it submitted is known while it waits"
        assert shell("work", "filings.py", "--run", "r", "--until-done").returncode == 0
        _, err = waiting.communicate(timeout=60)
    finally:
        waiting.kill()
    assert waiting.returncode == 1
    assert "run r: 1 completed, 1 failed" in err


def test_a_time_that_is_none_is_refused(refused: Callable[..., str]) -> None:
    assert "--timeout cannot be 'soon'" in refused("wait", "r", "--timeout", "soon")


def test_a_recording_is_not_written_over_another_file(
    fill: Callable[..., None], here: Path, refused: Callable[..., str]
) -> None:
    fill(1, 1)
    (here / "old.jsonl").write_text("kept")
    assert "old.jsonl is there already" in refused("wait", "r", "--record", "old.jsonl")
    assert (here / "old.jsonl").read_text() == "kept"


def test_a_run_is_watched_from_another_process_to_its_end(shell: Shell) -> None:
    shell("submit", "page", "--urls-file", shell.urls(40), "--run", "r")
    waiting = shell.start("wait", "r", "--json", "--record", "run.jsonl")
    assert waiting.stderr is not None
    assert "0 of 40 done" in waiting.stderr.readline()
    shell("work", "pages.py", "--run", "r", "--until-done")
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert json.loads(out)["completed"] == 40
    assert read_recording(shell.folder / "run.jsonl").looks[-1].done == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_the_run_as_it_is(shell: Shell) -> None:
    shell("submit", "page", "--urls-file", shell.urls(5), "--run", "r")
    waiting = shell.start("wait", "r")
    assert waiting.stderr is not None
    # Once it has said something it is watching.
    assert "0 of 5 done" in waiting.stderr.readline()
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=20)
    assert waiting.returncode == 130
    assert "Not watching any more; the run goes on: 0 of 5 done." in err
    assert "wait r" in err
    assert shell.json("status", "r", "--json")["pending"] == 5


LOOK = RunSnapshot(
    at=0.0,
    took=0.0,
    lanes=(Count(kind="page", pending=50, completed=40, failed=8), Count(kind="doc", completed=1, failed=1)),
    count=Count(pending=50, completed=41, failed=9),
    active=ActiveWorkers(workers=2, busy=7, slots=8),
    evidence=Evidence(pending=50, claimed=0, workers=2, going=True),
    per_second=2.0,
    failing=(("timeout (TimedOutError)", 8), ("processing", 1)),
)
FOUND = Estimate(
    p50=65.0,
    p90=100.0,
    binds=Binding.HOST,
    host="slow.org",
    basis=Basis(finished=50, seconds=25, timed=50, workers=2, slots=8),
)


def test_a_line_says_how_far_how_fast_how_long_and_what_fails() -> None:
    assert progress_line(LOOK, FOUND) == (
        "50 of 100 done, 2.0/s, 1 min 05 s to 1 min 40 s left, "
        "9 failed (page 8; doc 1; timeout (TimedOutError) 8; processing 1), 2 workers (7 of 8 busy)"
    )


@pytest.mark.parametrize("width", [50, 100])
def test_the_picture_fits_the_screen(width: int) -> None:
    to = Console(file=StringIO(), width=width, force_terminal=True, color_system=None)
    held = Blockers(paused={"r": 0.0}, left_out=LeftOut(too_deep=3))
    to.print(picture(LOOK, FOUND, held, "run r", width))
    assert isinstance(to.file, StringIO)
    lines = to.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "50/100  50 %" in text
    assert "1 min 05 s to 1 min 40 s left" in text
    assert "what binds: the rate of slow.org" in text
    assert "9 failed" in text
    said = " ".join(text.split())
    assert "paused: run r; to let it go on: longshore resume" in said
    assert "left out: 3 follow-on jobs (3 too deep)" in said


def test_in_a_pipe_a_pause_is_said_once_until_it_is_over() -> None:
    to = Console(file=StringIO(), width=200)
    paused = Blockers(paused={"r": 0.0})
    with wait_view(to, "run r") as view:
        for held in (Blockers(), paused, paused, Blockers(), paused):
            view.show(LOOK, held)
    assert isinstance(to.file, StringIO)
    assert sum(line.startswith("paused: run r") for line in to.file.getvalue().splitlines()) == 2


def test_a_pause_is_said_at_the_end_too(fill: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    fill(3, 1)
    main(["pause", "r"])
    assert main(["wait", "r", "--timeout", "0s", "--json"]) == 4
    out = capsys.readouterr().out
    ended = json.loads(out[out.index("{") :])
    assert list(ended["paused"]) == ["r"]
    assert ended["estimate"]["unknown"] == "it is paused"
    assert main(["wait", "r", "--timeout", "0s"]) == 4
    assert "paused: run r; to let it go on: longshore resume r " in capsys.readouterr().err.splitlines()[-1]


def test_a_run_that_is_still_being_submitted_is_not_finished_for_wait_worker_and_status(shell: Shell) -> None:
    """A pipe gives more than one batch, then pauses: what was submitted is done, and the run is not (D5)."""
    shell.write("n.py", 'from longshore import handler\n\n@handler("n")\nasync def n(job): return 1\n')
    submitting = subprocess.Popen(
        [sys.executable, "-m", "longshore", "submit", "n", "--jobs-file", "-", "--run", "r"],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert submitting.stdin is not None
    submitting.stdin.write(b"".join(b'{"n": %d}\n' % number for number in range(BATCH)))
    submitting.stdin.flush()
    wait_until(lambda: b'"pending"' in shell("status", "r", "--json").stdout.encode())
    worker = shell.start("work", "n.py", "--run", "r", "--until-done", "--log-format", "text")
    wait_until(lambda: shell.json("status", "r", "--json")["completed"] == BATCH)
    assert shell.json("status", "r", "--json")["being_submitted"] is True
    assert "still being submitted" in shell("status", "r").stdout
    assert "still being submitted" in shell("estimate", "r").stdout
    assert shell("wait", "r", "--timeout", "1s").returncode == 4
    assert worker.poll() is None
    submitting.stdin.write(b"".join(b'{"n": %d}\n' % number for number in range(BATCH, BATCH + 10)))
    submitting.stdin.close()
    assert submitting.wait(60) == 0
    assert shell("wait", "r").returncode == 0
    worker.communicate(timeout=60)
    assert worker.returncode == 0
    done = shell.json("status", "r", "--json")
    assert (done["completed"], "being_submitted" in done) == (BATCH + 10, False)


def test_without_a_run_the_newest_that_is_not_finished_is_watched(
    fill: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["wait"]) == 2
    assert "is unfinished. Name one to see how it ended." in capsys.readouterr().err
    fill(3, 1, 0)
    assert main(["wait", "--timeout", "0s", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["run"] == "r"
