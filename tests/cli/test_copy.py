"""`longshore copy` on real queues: copies, moves, offline checkouts and their merge, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.cli import main
from longshore.errors import QueueUnavailableError
from longshore.job import Job, State, new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection
from longshore.runs.control.growth_limits import GrowthLimits, set_limits
from longshore.runs.transfer import move_jobs

from .conftest import Shell

Says = Callable[..., str]
Refused = Callable[..., str]


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Says:
    """Run a command that must end with this code, and give what it printed."""

    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        ended = main(arguments)
        out, err = capsys.readouterr()
        assert ended == code, err
        return out

    return run


def fill(url: str, count: int = 5, *, done: int = 0, held: int = 0, run: str = "r", **fields: Any) -> None:
    """So many jobs, some of them completed, some in the hands of a worker."""

    async def put() -> None:
        queue = await open_queue(url)
        new = [new_job("page", {"url": f"https://a.org/{n}"}, run=run, key=str(n), **fields) for n in range(count)]
        await queue.submit(new)
        leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=done + held, lease=timedelta(hours=1)))
        await queue.settle([Settlement(lease, Completed({"ok": True}), 0.5) for lease in leases[:done]])
        await queue.close()

    asyncio.run(put())


def jobs(url: str) -> list[Job]:
    async def listed() -> list[Job]:
        queue = await open_queue(url)
        found = await queue.jobs(Selection())
        await queue.close()
        return found

    return asyncio.run(listed())


def states(url: str) -> dict[State, int]:
    found = [job.state for job in jobs(url)]
    return {state: found.count(state) for state in State if state in found}


@pytest.mark.ledger("F3")
@pytest.mark.parametrize(("source", "target"), [("a.db", "./b"), ("./a", "b.db"), ("./a", "dir://b"), ("a.db", "b.db")])
def test_a_run_is_copied_between_media_with_its_state(here: Path, says: Says, source: str, target: str) -> None:
    fill(source, done=2, held=1)
    out = says("copy", source, target)
    assert "5 jobs copied" in out
    assert "1 is held by a worker" in out
    assert "3 pending, 2 completed" in out
    assert states(source) == {State.PENDING: 2, State.CLAIMED: 1, State.COMPLETED: 2}
    assert states(target) == {State.PENDING: 3, State.COMPLETED: 2}
    assert [job.result for job in jobs(target)[:2]] == [{"ok": True}] * 2


def test_a_second_copy_is_refused_and_resume_goes_on(here: Path, says: Says, refused: Refused) -> None:
    fill("a.db")
    says("copy", "a.db", "b.db")
    said = refused("copy", "a.db", "b.db")
    assert "run 'r'" in said
    assert "--resume" in said
    fill("a.db", 7)
    assert "2 jobs copied to sqlite:///b.db. 5 jobs had arrived before." in says("copy", "a.db", "b.db", "--resume")


def test_one_run_of_several_is_copied(here: Path, says: Says, refused: Refused) -> None:
    fill("a.db", 2, run="one")
    fill("a.db", 3, run="two")
    says("copy", "a.db", "b.db", "--run", "two")
    assert {job.run for job in jobs("b.db")} == {"two"}
    assert "There is no run 'three'" in refused("copy", "a.db", "c.db", "--run", "three")
    assert not Path("c.db").exists()


def test_a_move_takes_everything_along(here: Path, says: Says) -> None:
    fill("a.db", done=2)
    assert "5 jobs moved" in says("copy", "a.db", "b.db", "--move")
    assert states("a.db") == {}
    assert states("b.db") == {State.PENDING: 3, State.COMPLETED: 2}


def test_a_move_whose_last_words_were_lost_is_repeated_without_harm(here: Path, says: Says, refused: Refused) -> None:
    fill("sqlite:///a.db")
    fill("sqlite:///a.db", 1, run="other")
    assert "5 jobs moved" in says("copy", "a.db", "b.db", "--run", "r", "--move")
    assert "There is no run 'r'" in refused("copy", "a.db", "b.db", "--run", "r", "--move")
    out = says("copy", "a.db", "b.db", "--run", "r", "--move", "--resume")
    assert "0 jobs moved to sqlite:///b.db." in out
    assert "There now: 5 pending." in out
    assert "There is no run 'never'" in refused("copy", "a.db", "b.db", "--run", "never", "--move", "--resume")
    assert "There is no run 'r'" in refused("copy", "a.db", "c.db", "--run", "r", "--move", "--resume")
    assert not Path("c.db").exists()


def test_a_move_that_had_to_leave_something_says_what_and_ends_with_one(here: Path, says: Says) -> None:
    fill("a.db", held=2)
    fill("a.db", 1, run="later", not_before=9_000_000_000.0)
    out = says("copy", "a.db", "b.db", "--move", code=1)
    assert "3 jobs moved" in out
    assert "2 are held by a worker and stayed" in out
    assert "1 is not due yet and stayed" in out
    assert out.count("--resume") == 2


def test_a_move_says_what_the_two_queues_disagree_about(here: Path, says: Says) -> None:
    fill("a.db", 3)
    says("copy", "a.db", "b.db")

    async def disagree() -> None:
        ours, theirs = await open_queue("a.db"), await open_queue("b.db")
        for queue, result in ((ours, "ours"), (theirs, "theirs")):
            [lease] = await queue.claim(Want(worker=WorkerId.new("w"), limit=1))
            await queue.settle([Settlement(lease, Completed(result))])
        [last] = [job.id for job in await theirs.jobs(Selection()) if job.key == "2"]
        await theirs.cancel(Selection(ids=frozenset({last})))
        await ours.close()
        await theirs.close()

    asyncio.run(disagree())
    out = says("copy", "a.db", "b.db", "--move", "--resume", code=1)
    assert "1 job moved" in out
    assert "1 is pending in sqlite:///a.db, and failed or cancelled in sqlite:///b.db: kept in both." in out
    assert "1 is finished in sqlite:///a.db and differs in sqlite:///b.db: kept in both." in out
    assert "not due" not in out
    assert states("a.db") == {State.PENDING: 1, State.COMPLETED: 1}


def test_a_move_that_died_goes_on_from_another_folder(here: Path, says: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    fill("a.db", 3)
    before = move_jobs.Move._remove_from_source

    async def die(*_: Any) -> None:
        raise QueueUnavailableError("The queue is away.")

    monkeypatch.setattr(move_jobs.Move, "_remove_from_source", die)
    assert main(["copy", "a.db", "b.db", "--move"]) == 1
    assert states("a.db") == {State.CLAIMED: 3}
    monkeypatch.setattr(move_jobs.Move, "_remove_from_source", before)
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert "3 jobs moved" in says("copy", "../a.db", "../b.db", "--move", "--resume")
    assert states("../a.db") == {}
    assert states("../b.db") == {State.PENDING: 3}


@pytest.mark.ledger("F3")
@pytest.mark.parametrize("place", ["./checkout", "checkout.db"])
def test_a_checkout_is_worked_on_by_a_plain_worker_and_merged_back(shell: Shell, place: str) -> None:
    urls = shell.urls(6)
    shell.json("submit", "page", "--urls-file", urls, "--run", "r", "--queue", "a.db")
    taken = shell("copy", "a.db", place, "--claim", "4", "--hold", "2h", "--run", "r", "--kinds", "page")
    assert taken.returncode == 0, taken.stderr
    assert "4 jobs checked out" in taken.stdout
    assert shell.json("status", "--json", "--queue", "a.db")["claimed"] == 4
    worked = shell("work", "pages.py", "--queue", place, "--max-work", "3")
    assert worked.returncode == 0, worked.stderr
    merged = shell("copy", place, "a.db")
    assert merged.returncode == 0, merged.stderr
    assert "3 completed, 1 given back." in merged.stdout
    status = shell.json("status", "--json", "--queue", "a.db")
    assert (status["completed"], status["pending"], status["claimed"]) == (3, 3, 0)
    again = shell("copy", place, "a.db")
    assert "Nothing to merge" in again.stdout
    assert "4 were merged before." in again.stdout
    assert shell.json("status", "--json", "--queue", "a.db") == status


def test_jobs_that_another_worker_did_meanwhile_are_not_written(here: Path, says: Says) -> None:
    fill("a.db", 3)
    says("copy", "a.db", "./checkout", "--claim", "3")

    async def cancelled() -> None:
        queue = await open_queue("a.db")
        await queue.cancel(Selection())
        await queue.close()

    async def worked() -> None:
        queue = await open_queue("./checkout")
        leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=3))
        await queue.settle([Settlement(lease, Completed("late")) for lease in leases])
        await queue.close()

    asyncio.run(worked())
    asyncio.run(cancelled())
    assert "3 were done by another worker meanwhile" in says("copy", "./checkout", "a.db")
    assert states("a.db") == {State.CANCELLED: 3}


def test_a_merge_waits_for_what_is_still_worked_on_and_ends_with_one(here: Path, says: Says) -> None:
    fill("a.db", 1)
    says("copy", "a.db", "b.db", "--claim", "1")

    async def begun() -> None:
        queue = await open_queue("b.db")
        await queue.claim(Want(worker=WorkerId.new("w"), lease=timedelta(hours=1)))
        await queue.close()

    asyncio.run(begun())
    assert "1 is still being worked on" in says("copy", "b.db", "a.db", code=1)


def test_a_checkout_is_resumed_only_with_the_same_options(here: Path, says: Says, refused: Refused) -> None:
    fill("a.db")
    says("copy", "a.db", "./checkout", "--claim", "3")
    assert "--resume" in refused("copy", "a.db", "./checkout", "--claim", "3")
    assert "other options" in refused("copy", "a.db", "./checkout", "--claim", "4", "--resume")
    assert "3 jobs checked out" in says("copy", "a.db", "./checkout", "--claim", "3", "--resume")
    assert "merged as a whole" in refused("copy", "./checkout", "a.db", "--move")
    says("copy", "./checkout", "a.db")
    assert "has been merged already" in refused("copy", "a.db", "./checkout", "--claim", "3", "--resume")


def test_a_checkout_is_not_merged_into_another_queue(here: Path, says: Says, refused: Refused) -> None:
    fill("a.db")
    fill("c.db", run="other")
    says("copy", "a.db", "./checkout", "--claim", "3")
    assert "taken from sqlite:///a.db" in refused("copy", "./checkout", "c.db")
    assert "There is no queue at" in refused("copy", "./checkout", "nothing.db")
    assert not Path("nothing.db").exists()


def test_a_checkout_of_nothing_says_so(here: Path, says: Says) -> None:
    fill("a.db", 1, done=1)
    assert "nothing to claim" in says("copy", "a.db", "./checkout", "--claim", "3")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing.db", "b.db"), "There is no queue at sqlite:///nothing.db, which FROM names"),
        (("a.db", "a.db"), "the same queue"),
        (("a.db", "sqlite:///./x/../a.db"), "the same queue"),
        (("a.db", "memory://"), "memory://"),
        (("a.db", "b.db", "--hold", "1h"), "--hold works only with --claim"),
        (("a.db", "b.db", "--kinds", "page"), "--kinds works only with --claim"),
        (("a.db", "b.db", "--claim", "3", "--move"), "Give only one of them"),
        (("a.db", "b.db", "--claim", "0"), "--claim"),
        (("a.db", "b.db", "--claim", "3", "--hold", "soon"), "--hold cannot be 'soon'"),
        (("a.db", "b.db", "--claim", "3", "--hold", "0h"), "longer than 0"),
        (("a.db", "postgresql://u:hunter2@nowhere/x", "--claim", "3"), "must be a folder"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_made(
    here: Path, refused: Refused, arguments: tuple[str, ...], words: str
) -> None:
    fill("a.db")
    said = refused("copy", *arguments)
    assert words in said
    assert "hunter2" not in said
    assert not Path("b.db").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of this system")
def test_ctrl_c_says_how_to_go_on_and_leaves_whole_batches(shell: Shell) -> None:
    shell.json("submit", "page", "--urls-file", shell.urls(30_000), "--run", "r", "--queue", "a.db")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "longshore", "copy", "a.db", "b.db"],
        cwd=shell.folder,
        env=shell.environment | {"TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while not re.search(rb"Copying: [\d,]+ of 30,000", shown):
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:
        pass  # how the other end of a terminal says that it is closed
    assert process.wait() == 130
    os.close(ours)
    assert process.stdout is not None
    process.stdout.close()
    assert b"Repeat the command with --resume to continue" in shown
    arrived = shell.json("status", "--json", "--queue", "b.db")["pending"]
    assert 0 < arrived < 30_000
    assert arrived % 1000 == 0
    assert shell("copy", "a.db", "b.db", "--resume").returncode == 0
    assert json.loads(shell("status", "--json", "--queue", "b.db").stdout)["pending"] == 30_000


def test_a_paused_run_stays_with_the_words_that_resume_it(tmp_path: Path, says: Says) -> None:
    here, there = f"sqlite:///{tmp_path}/here.db", f"sqlite:///{tmp_path}/there.db"
    fill(here, 3)
    says("pause", "r", "--queue", here)
    out = says("copy", here, there, "--move", code=1)
    assert "3 are pending in run r, which is paused, and stayed." in out
    assert "not due" not in out
    assert "which is paused" in says("copy", here, f"sqlite:///{tmp_path}/out.db", "--claim", "2")
    advice = re.search(r"'longshore (resume r --queue \S+)'", out)
    assert advice is not None
    says(*advice[1].split())
    assert "3 jobs moved" in says("copy", here, there, "--move", "--resume")


def test_a_merge_says_how_many_follow_on_jobs_the_limits_left_out(tmp_path: Path, says: Says) -> None:
    here, away = f"sqlite:///{tmp_path}/here.db", f"sqlite:///{tmp_path}/away.db"
    fill(here, 1)
    says("copy", here, away, "--claim", "1")

    async def work() -> None:
        source, checkout = await open_queue(here), await open_queue(away)
        await set_limits(source, "r", GrowthLimits(max_jobs=3))
        [lease] = await checkout.claim(Want(worker=WorkerId.new("w")))
        found = tuple(new_job("page", {"n": number}) for number in range(250))
        await checkout.settle([Settlement(lease, Completed(None, found))])
        await source.close()
        await checkout.close()

    asyncio.run(work())
    out = says("copy", away, here)
    assert "1 completed, 2 new jobs" in out
    assert "248 follow-on jobs left out" in out
