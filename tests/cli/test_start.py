"""`longshore start` with real processes: routed by mode, resumed whatever is killed, one at a time."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from longshore.extensions.find import require
from longshore.extensions.shared_state import SharedState
from longshore.media import open_queue
from longshore.runs.control.growth_limits import GrowthLimits, limits_of

from .conftest import Shell

REGISTRY = """
[scrapers.India]
handler = "pages.py"
mode = "distributed"
urls = "urls.txt"

[scrapers.Peru]
handler = "noted.py"
urls = "urls.txt"
"""
# Each attempt is noted; where a gate is set up, it waits for that to open.
NOTED = """
import asyncio, os
from pathlib import Path
from longshore import handler

@handler("page", timeout=60, retries=99)
async def page(job, kit):
    with open("attempts.txt", "a") as file:
        file.write(job.payload["url"] + "\\n")
    await asyncio.sleep(0.02)
    while Path("closed").exists():
        await asyncio.sleep(0.01)
    return job.payload["url"]
"""


@pytest.fixture
def scene(shell: Shell) -> Shell:
    shell.write("longshore.toml", REGISTRY)
    shell.write("noted.py", NOTED)
    shell.urls(5)
    return shell


def attempts(shell: Shell) -> int:
    path = shell.folder / "attempts.txt"
    return path.read_text().count("\n") if path.exists() else 0


def until(true: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Wait for a condition that the process brings about; False where it ended first."""
    deadline = time.monotonic() + 60
    while not true():
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.005)
    return True


def kill_everything(process: subprocess.Popen[str]) -> None:
    everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for each in everything:
        each.kill()
    psutil.wait_procs(everything)
    process.communicate()


def results(shell: Shell) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (shell.folder / "results.jsonl").read_text().splitlines()]


def test_a_distributed_scraper_prints_a_command_that_works_off_its_run(scene: Shell) -> None:
    """D6: the command runs as printed, and shows no password."""
    scene.write("urls.txt", "https://a.org/1\nhttps://a.org/2\nhttps://A.org:443/1#top\n")
    started = scene.json("start", "India")
    assert [*started] == ["status", "run_id", "enqueued", "duplicates", "worker_command"]
    assert (started["status"], started["enqueued"], started["duplicates"]) == ("queued", 2, 1)
    assert re.fullmatch(r"\d{8}_\d{6}", started["run_id"])
    worked = subprocess.run(
        started["worker_command"],
        shell=True,
        cwd=scene.folder,
        env=scene.environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert worked.returncode == 0, worked.stderr
    status = scene.json("status", started["run_id"], "--json")
    assert (status["completed"], status["remaining"]) == (2, 0)


def test_the_queue_of_the_environment_is_not_printed(scene: Shell, tmp_path: Path) -> None:
    queue = f"sqlite:///{tmp_path}/elsewhere.db"
    done = scene("start", "India", LONGSHORE_QUEUE=queue)
    started = json.loads(done.stdout)
    assert "elsewhere" not in done.stdout + done.stderr
    _, _, *arguments = shlex.split(started["worker_command"])[1:]
    assert scene(*arguments, LONGSHORE_QUEUE=queue).returncode == 0
    assert json.loads(scene("status", "--json", LONGSHORE_QUEUE=queue).stdout)["completed"] == 5


def test_starts_in_the_same_second_never_share_a_run(scene: Shell) -> None:
    starting = [scene.start("start", "India") for _ in range(4)]
    said = [json.loads(process.communicate(timeout=90)[0]) for process in starting]
    assert len({one["run_id"] for one in said}) == 4
    assert [one["enqueued"] for one in said] == [5] * 4


def test_a_single_scraper_runs_here_to_its_end(scene: Shell) -> None:
    done = scene("start", "Peru", "--workers", "1")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["status"], said["completed"], said["remaining"], said["results"]) == (
        "completed",
        5,
        0,
        "results.jsonl",
    )
    assert sorted(line["result"] for line in results(scene)) == [f"https://a.org/{n}" for n in range(5)]
    assert {line["run"] for line in results(scene)} == {said["run_id"]}
    again = scene("start", "Peru", "--resume")
    assert again.returncode == 2
    assert "Peru has no run to resume here" in again.stderr


def test_what_failed_is_told_with_commands_that_work(scene: Shell) -> None:
    scene.write(
        "noted.py",
        'from longshore import handler\n\n@handler("page", retries=0)\nasync def page(job):\n    open("ok")\n',
    )
    done = scene("start", "Peru", "--workers", "1", "--urls-file", "urls.txt")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "failed"
    (scene.folder / "ok").touch()
    printed = re.findall(r"-m longshore ((?:retry|start) .*)", done.stderr)
    assert len(printed) == 2, done.stderr
    for command in printed:
        extra = ("--yes",) if command.startswith("retry") else ("--workers", "1")
        done = scene(*shlex.split(command), *extra)
        assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["completed"], len(results(scene))) == (5, 5)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_killed_again_and_again_at_random_points_no_job_is_lost_or_twice_in_the_results(
    scene: Shell, long: bool
) -> None:
    count, kills = (400, 12) if long else (120, 4)
    seed = int.from_bytes(os.urandom(4))
    chance = random.Random(seed)
    scene.urls(count)
    scene.environment["LONGSHORE_LEASE_SECONDS"] = "1"
    command = ["start", "Peru", "--workers", "2"]
    runs: set[str] = set()
    begun = scene.folder / ".longshore" / "scrapers"

    def far_enough(already: int) -> bool:
        return attempts(scene) > already or (already == 0 and any(begun.glob("Peru-*/*.json")))

    for _ in range(kills):
        # From "before anything is done" to "nearly at the end".
        already = attempts(scene) + chance.randrange(count // kills)
        process = scene.start(*command)
        if until(partial(far_enough, already), process):
            kill_everything(process)
        else:
            out, error = process.communicate()
            assert process.returncode == 0, (seed, out, error)
            break
        runs.update(path.stem for path in begun.glob("Peru-*/*.json"))
        if runs and "--resume" not in command:
            command.append("--resume")
    else:
        done = scene(*command)
        assert done.returncode == 0, (seed, done.stderr)
    assert len(runs) == 1, seed
    found = results(scene)
    assert sorted(line["result"] for line in found) == sorted(f"https://a.org/{n}" for n in range(count)), seed
    assert {line["run"] for line in found} == runs
    assert len({line["key"] for line in found}) == count
    status = scene.json("status", "--json")
    assert (status["completed"], status["remaining"], status["failed"]) == (count, 0, 0), seed


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_second_start_says_who_runs_and_since_when(scene: Shell) -> None:
    (scene.folder / "closed").touch()
    process = scene.start("start", "Peru", "--workers", "1")
    assert until(lambda: attempts(scene) > 0, process), process.communicate()
    try:
        second = scene("start", "Peru")
        assert second.returncode == 1
        assert f"Peru runs already: process {process.pid} on " in second.stderr
        assert re.search(r", since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\. Wait for its end", second.stderr)
        assert second.stdout == ""
    finally:
        kill_everything(process)
    (scene.folder / "closed").unlink()
    # Whoever held it is gone, and with it the lock.
    assert scene("start", "Peru", "--resume", "--workers", "1", LONGSHORE_LEASE_SECONDS="1").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["start", "Nowhere"], "There is no scraper 'Nowhere'. There are: India, Peru."),
        (["start", "India", "--out", "x"], "--out is for single mode, and India is distributed"),
        (["start", "Peru", "--out", "items.csv"], "--out items.csv: the results are written as JSONL"),
        (["start", "India", "--profile", "weekly"], "There is no profile 'weekly', which --profile names"),
        (["start", "India", "--run", "../up"], "cannot be a run id"),
        (["start", "India", "--urls-file", "none.txt"], "none.txt cannot be read"),
        (["start", "India", "--queue", "memory://"], "lives inside one program"),
        (["start", "Peru", "--resume"], "Peru has no run to resume here"),
        (["start", "Peru", "--resume", "--run", "x"], "There is no run 'x' of Peru"),
    ],
)
def test_what_cannot_be_started_is_refused(
    here: Path, refused: Callable[..., str], arguments: list[str], fault: str
) -> None:
    (here / "longshore.toml").write_text(REGISTRY)
    for name in ("pages.py", "noted.py"):
        (here / name).write_text(NOTED)
    (here / "urls.txt").write_text("https://a.org/\n")
    assert fault in refused(*arguments)


def test_from_python_it_is_the_same(scene: Shell) -> None:
    """D9: the command line and the Python API do the same things."""
    scene.write(
        "script.py",
        """
import asyncio, threading
from pathlib import Path
import longshore
from longshore import Scraper, product

queued = longshore.start("India", urls=["https://b.org/1", {"url": "https://b.org/2"}])
assert (queued.status, queued.enqueued) == ("queued", 2), queued
assert "-m longshore work pages.py" in queued.worker_command
counts = longshore.stats(queued.run_id)
assert (counts.pending, counts.remaining, counts.completed) == (2, 2, 0)

bounded = longshore.start("India", run="bounded", max_depth=2, max_jobs=50, profile="development")
assert "--profile development" in bounded.worker_command, bounded

# A scraper of one's own, where a loop runs already, and in a thread that is not the main one.
own = Scraper("Own", handler="pages.py", source=product(city=["a", "b"], url="https://c.org/{city}"))
async def within():
    return longshore.start(own, out="own.jsonl", workers=2)
finished = asyncio.run(within())
assert (finished.status, finished.completed, finished.results) == ("completed", 2, "own.jsonl"), finished
thread = threading.Thread(target=lambda: longshore.start(own, out="thread.jsonl"))
thread.start(); thread.join()
assert open("thread.jsonl").read().count("\\n") == 2

logs = Path(".longshore/logs", finished.run_id)
assert sorted(path.name for path in logs.iterdir()) == ["worker_1.log", "worker_2.log"]

for wrong in (
    lambda: longshore.stats("none"),
    lambda: longshore.start("none"),
    lambda: longshore.start(Scraper("X")),
    lambda: longshore.start("India", workers=2),
    lambda: longshore.start("India", max_jobs=0),
    lambda: longshore.start("Peru", workers=0),
    lambda: longshore.start("Peru", profile="none"),
):
    try:
        wrong()
    except longshore.LongshoreError:
        pass
    else:
        raise SystemExit("not refused")
""",
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=scene.folder,
        env=scene.environment | {"LONGSHORE_WORKERS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert asyncio.run(limits_kept(scene, "bounded")) == GrowthLimits(max_depth=2, max_jobs=50)


async def limits_kept(scene: Shell, run: str) -> GrowthLimits:
    queue = await open_queue(f"sqlite:///{scene.folder}/.longshore/queue.db")
    try:
        return await limits_of(require(queue, SharedState, "lacks it"), run)
    finally:
        await queue.close()


class TestSubmitting:
    def test_a_csv_file_with_a_template(self, here: Path, says: Callable[..., str]) -> None:
        (here / "c.csv").write_text("city,state\nNew York,NY\nAustin,TX\n")
        command = ("submit", "page", "--csv", "c.csv", "--template", "https://a.org/{city}", "--partition", "{state}")
        assert json.loads(says(*command))["submitted"] == 2
        first, second = json.loads(says("jobs", "--json"))
        assert first["payload"] == {"city": "New York", "state": "NY", "url": "https://a.org/New%20York"}
        assert [first["partition"], second["partition"]] == ["NY", "TX"]

    def test_a_folder_by_year_and_limit(self, here: Path, says: Callable[..., str]) -> None:
        """C1: filings by year and limit; again, nothing is doubled."""
        for name in ("2023-a.xml", "2024-b.xml", "2024-c.xml", "2024-d.txt", "2024-e.xml"):
            (here / name).touch()
        command = ("submit", "filing", "--scan", ".", "--glob", "*.xml", "--year", "2024", "--limit", "2", "--run", "r")
        assert json.loads(says(*command)) == {"run_id": "r", "submitted": 2, "duplicates": 0}
        assert json.loads(says(*command)) == {"run_id": "r", "submitted": 0, "duplicates": 2}
        assert [job["payload"]["path"] for job in json.loads(says("jobs", "--json"))] == ["2024-b.xml", "2024-c.xml"]

    def test_a_query(self, here: Path, says: Callable[..., str]) -> None:
        import sqlite3

        connection = sqlite3.connect(here / "shop.db")
        connection.executescript("create table s (id integer, state text); insert into s values (1, 'TX'), (2, 'CA')")
        connection.close()
        query = "select id from s where state = :state"
        said = says("submit", "page", "--sql", "shop.db", "--query", query, "--param", "state=TX", "--run", "r")
        assert json.loads(said)["submitted"] == 1
        assert [job["payload"] for job in json.loads(says("jobs", "--json"))] == [{"id": 1}]

    @pytest.mark.parametrize(
        ("arguments", "fault"),
        [
            ((), "one of them"),
            (("--csv", "a", "--scan", "b"), "one of them"),
            (("--scan", ".", "--template", "x"), "--template belongs to --csv or --sql"),
            (("--urls-file", "a", "--year", "2024"), "--year belongs to --scan"),
            (("--sql", "a.db"), "--sql needs --query"),
            (("--sql", "a.db", "--query", "select 1", "--param", "x"), "write NAME=VALUE"),
            (("--csv", "none.csv"), "none.csv cannot be read"),
        ],
    )
    def test_options_that_do_not_fit_are_refused(
        self, here: Path, refused: Callable[..., str], arguments: tuple[str, ...], fault: str
    ) -> None:
        assert fault in refused("submit", "page", *arguments)
