"""The recipe `competitions`, end to end: replica, git server, host and workers are real processes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recipes.competitions_scene import (
    RECIPES,
    Machine,
    MakeMachine,
    Replica,
    in_order,
    is_the_truth,
    results_in,
    wait_for_line,
)
from tests.services.chromium import need_chromium
from tests.services.git_http import GitHttpServer


@pytest.fixture
def replica(long: bool) -> Iterator[Replica]:
    made = Replica("--competitions", "60" if long else "6", "--rate", "25", "--burst", "12")
    yield made
    made.stop()


@pytest.fixture
def machine(tmp_path: Path, replica: Replica) -> Iterator[MakeMachine]:
    made: list[Machine] = []

    def make(name: str = "here", **variables: str) -> Machine:
        made.append(Machine(tmp_path / name, replica, **({"COMPETITIONS_BROWSER": "none"} | variables)))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def repository(tmp_path: Path) -> str:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "queue.git")], check=True)
    return str(tmp_path / "queue.git")


def publish(machine: Machine, repository: str) -> int:
    out, _ = machine.run("competitions.host", "publish", "--repo-url", repository)
    return int(re.findall(r"Published (\d+) competitions", out)[0])


@pytest.mark.ledger("A1")
@pytest.mark.ledger("A3")
@pytest.mark.ledger("A6")
@pytest.mark.ledger("A11")
@pytest.mark.ledger("A14")
def test_every_club_is_found_once_over_http_although_workers_are_killed(
    tmp_path: Path, replica: Replica, machine: MakeMachine, long: bool
) -> None:
    with GitHttpServer(tmp_path) as server:
        server.make("queue.git")
        url = server.url("queue.git")
        host = machine("host")
        assert publish(host, url) == (60 if long else 6)
        assert publish(host, url) == 0
        limits = ("--repo-url", url, "--max-work", "0", "--max-failures", "0", "--max-idle-hours", "0")
        # On a busy machine a worker may be late: a job that is taken for lost four times has failed.
        lease = "30" if long else "10"
        laptops = [machine(f"laptop-{number}", LONGSHORE_LEASE_SECONDS=lease) for number in range(3)]
        for _ in range(6 if long else 2):
            doomed = laptops[0].worker(*limits)
            wait_for_line(doomed, "Processing competition")
            doomed.kill()
            doomed.communicate()
        workers = [laptop.worker(*limits) for laptop in laptops]
        host.run("competitions.host", "collect", "--repo-url", url, "--follow", timeout=3000 if long else 600)
        for worker in workers:
            worker.terminate()
        logs = [worker.communicate(timeout=120)[1] for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0, 0], logs
        is_the_truth(results_in(host.folder / "results" / "competitions.jsonl"), replica.read("truth.json"))
        figures = json.loads(host.run("competitions.host", "kpis", "--repo-url", url, "--json")[0])
        jobs = 60 if long else 6
        assert (figures["published"], figures["completed"], figures["failed"]) == (jobs, jobs, 0)
        assert (figures["completion_rate"], figures["success_rate"]) == (1, 1)
        assert 0.3 < figures["claim_success_rate"] <= 1
        assert 0 < figures["utilisation"] <= 1
        names = re.findall(r"Worker (\S+) initialized", "".join(logs))
        assert len(set(names)) == 3
        assert all(re.fullmatch(r".+_\d+_[0-9a-f]+", name) for name in names)
        troubles = replica.read("counts.json")
        assert {"block page", "error", "cut off", "slow", "refused", "banned"} <= troubles.keys(), troubles


@pytest.mark.ledger("A17")
@pytest.mark.ledger("A19")
def test_clubs_are_scraped_with_chrome_by_either_command(tmp_path: Path, machine: MakeMachine, repository: str) -> None:
    need_chromium()
    small = Replica("--competitions", "2", "--slow", "0.1")
    try:
        here = machine(COMPETITIONS_BROWSER="chrome", COMPETITIONS_SOURCE=small.url)
        publish(here, repository)
        _, log = here.run("competitions.worker", "--repo-url", repository, "--max-work", "1")
        assert "Browser initialized: /" in log
        (here.folder / "competitions").symlink_to(RECIPES / "competitions")
        plain = machine("here", COMPETITIONS_BROWSER="chrome", LONGSHORE_BROWSER="selenium", DEBUG="true")
        queue = ("--queue", repository, "--concurrency", "1", "--max-work", "1")
        _, log = plain.run("longshore", "work", "competitions/handlers.py", *queue)
        assert "DEBUG" in log
        assert "/session/" not in log, "who knows the secret path of the driver commands the browser"
        assert "<html" not in log
        here.run("competitions.host", "collect", "--repo-url", repository)
        is_the_truth(results_in(here.folder / "results" / "competitions.jsonl"), small.read("truth.json"))
    finally:
        small.stop()


@pytest.mark.ledger("A4")
@pytest.mark.ledger("A5")
@pytest.mark.ledger("A8")
@pytest.mark.ledger("A10")
@pytest.mark.ledger("A12")
def test_the_console_tells_the_story_line_by_line(machine: MakeMachine, repository: str) -> None:
    here = machine(LONGSHORE_LOG_FORMAT="auto")
    publish(here, repository)
    (here.folder / ".env").write_text(
        f"GITHUB_REPO_URL={repository}\nENVIRONMENT=testing\nMAX_WORK_ORDERS=2\nMAX_CONSECUTIVE_FAILURES=2\n"
    )
    story = on_a_terminal(here, "competitions.worker")
    in_order(
        story,
        "Starting a work cycle (testing): until 2 jobs, 2 looks in a row without work, 2.0 hours without work",
        "Bridge initialized: the work is in git+file://",
        "Browser not needed",
        *("Worker ", " initialized", "Looking for work", "Claimed work", "Processing competition ", "Season 2024/25: "),
        *("Scraped ", "Completed work", 'progress="1 of 2"', "Claimed work", "Completed work", 'progress="2 of 2"'),
        *(
            "STOPPING: reached the limit of 2 jobs",
            "Final statistics: 2 completed, 0 failed",
            "100% of the target of 2",
        ),
    )
    begins = re.compile(r"\d\d:\d\d:\d\d [^\x00-\x7f]")
    assert not [line for line in story.splitlines() if line and not begins.match(line)]
    development = on_a_terminal(here, "competitions.worker", "--environment", "development")
    assert "Starting a work cycle (development): until 2 jobs" in development, ".env comes before the profile"
    rest = on_a_terminal(here, "competitions.worker", "--max-work", "0", "--max-failures", "3")
    in_order(rest, "No work available (poll 1 of 3", "idle 0.0 of 2.0 h); next look in", "poll 2 of 3", "STOPPING: ")


def test_without_limits_of_its_own_the_profile_development_does_five_jobs(
    machine: MakeMachine, repository: str
) -> None:
    here = machine()
    publish(here, repository)
    _, log = here.run("competitions.worker", "--repo-url", repository, "--environment", "development")
    assert "Starting a work cycle (development): until 5 jobs, 20 looks in a row without work" in log
    assert "Final statistics: 5 completed" in log


@pytest.mark.ledger("A13")
def test_the_faces_do_what_their_names_say(machine: MakeMachine, repository: str) -> None:
    here = machine()
    publish(here, repository)
    (here.folder / "old.py").write_text(f"""
from competitions.bridge import GitHubWorkBridge

with GitHubWorkBridge({repository!r}) as bridge:
    order = bridge.claim_available_work("office_1_abc")
    other = bridge.claim_available_work("office_2_def")
    assert order["id"] != other["id"] and order["competition_id"] and order["url"]
    assert bridge.submit_completed_work(order, {{"seasons_processed": 1}})
    assert bridge.submit_failed_work(other, "the site is down")
    assert bridge.get_archive_statistics() == {{"total_jobs": 0, "total_bytes": 0, "months": {{}}}}
    kept = bridge.claim_available_work("office_1_abc")
""")
    subprocess.run([sys.executable, "old.py"], cwd=here.folder, env=here.environment, check=True, timeout=120)
    shown = json.loads(here.run("longshore", "status", "competitions", "--queue", repository, "--json")[0])
    assert (shown["completed"], shown["pending"], shown["claimed"]) == (1, 5, 0), "what it still held was given back"
    waiting = json.loads(here.run("longshore", "jobs", "--queue", repository, "--state", "pending", "--json")[0])
    assert [job["failure"]["message"] for job in waiting if job.get("failure")] == ["the site is down"]
    here.run("competitions.host", "archive", "--repo-url", repository, "--older-than", "0s")
    (here.folder / "new.py").write_text(f"""
from competitions.bridge import GitHubWorkBridge

bridge = GitHubWorkBridge({repository!r})
found = bridge.get_archive_statistics()
assert found["total_jobs"] == 1 and found["total_bytes"] > 0 and len(found["months"]) == 1, found
assert bridge.cleanup_old_archives() == 0
assert bridge.cleanup_old_archives(days_to_keep=0) == 1
assert bridge.get_archive_statistics()["total_jobs"] == 0
""")
    subprocess.run([sys.executable, "new.py"], cwd=here.folder, env=here.environment, check=True, timeout=120)


@pytest.mark.ledger("A15")
def test_a_worker_of_ones_own_overrides_one_method(machine: MakeMachine, repository: str) -> None:
    here = machine()
    publish(here, repository)
    (here.folder / "mine.py").write_text(f"""
from competitions.worker import DistributedWorker


class Titles(DistributedWorker):
    def process_work_order(self, work_order, driver):
        driver.get(work_order["url"])
        if work_order["competition_id"].startswith("BR"):
            raise ValueError("not mine")
        return {{"title": work_order["name"], "length": len(driver.page_source)}}


if __name__ == "__main__":
    report = Titles({repository!r}, "development").run_worker_cycle(2, 2, 1.0)
    print(report.completed, report.reason)
""")
    out, _ = here.run("mine")
    assert out.startswith("2 reached the limit of 2 jobs")
    done = json.loads(here.run("longshore", "jobs", "--queue", repository, "--state", "completed", "--json")[0])
    assert all(job["result"]["title"] == job["payload"]["name"] for job in done)
    [failed] = json.loads(here.run("longshore", "jobs", "--queue", repository, "--error", "*not mine*", "--json")[0])
    assert failed["state"] == "pending", "it waits in the retry queue"


@pytest.mark.ledger("A7")
def test_the_sleep_preventer_starts_and_stops() -> None:
    script = """
from competitions.sleep_preventer import SleepPreventer
from unittest.mock import patch
import contextlib, longshore.system.keep_awake as keep
held = []
@contextlib.contextmanager
def awake(wanted, cannot):
    held.append("on")
    yield
    held.append("off")
with patch("competitions.sleep_preventer.awake", awake):
    one = SleepPreventer()
    assert one.start_prevention() and one.start_prevention() and held == ["on"]
    one.stop_prevention()
    one.stop_prevention()
    assert held == ["on", "off"]
real = SleepPreventer()
assert real.start_prevention() in (True, False)
real.stop_prevention()
"""
    subprocess.run([sys.executable, "-c", script], cwd=RECIPES, check=True, timeout=60)


@pytest.mark.ledger("A18")
@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        ((), {}, "Give --repo-url URL, or set GITHUB_REPO_URL in .env."),
        (("--repo-url", "http://127.0.0.1:1/queue.git", "--max-failures", "1"), {}, "127.0.0.1:1"),
        (("--repo-url", "{here}/nosuch.git"), {}, "nosuch.git"),
        (("--repo-url", "ftp://example.test/queue.git"), {}, "ftp"),
        (("--repo-url", "{queue}"), {"PATH": "/nonexistent"}, "The program 'git' was not found"),
        (("--repo-url", "{queue}", "--environment", "nosuch"), {}, "nosuch"),
    ],
)
def test_each_trouble_ends_in_one_message(
    machine: MakeMachine, repository: str, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    here = machine(**variables)
    given = [each.format(queue=repository, here=here.folder) for each in arguments]
    process = here.worker(*given)
    _, err = process.communicate(timeout=120)
    assert process.returncode in {1, 2}, err
    assert said in err
    assert "Traceback" not in err


@pytest.mark.ledger("A20")
def test_the_report_for_a_helper_has_what_they_ask_for_and_no_secret(machine: MakeMachine, repository: str) -> None:
    here = machine(PYTHONPATH=f"{RECIPES}:{RECIPES.parent / 'tests' / 'fake_resolver'}")
    publish(here, repository)
    (here.folder / ".env").write_text(f"GITHUB_REPO_URL={repository}\nSITE_PASSWORD=tide-and-time\n")
    on_a_terminal(here, "competitions.worker", "--max-work", "1")
    [log] = (here.folder / ".longshore" / "logs" / "competitions").glob("*.log")
    with log.open("a") as also:
        also.write("something went wrong with tide-and-time\n")
    process = here.start("longshore", "doctor", "--report", "problem.txt")
    process.communicate(timeout=120)
    report = (here.folder / "problem.txt").read_text()
    for fact in ("system", "python", "git", "browser", "command", "memory", "disk"):
        assert re.search(rf"^{fact} +\S", report, re.MULTILINE), report
    for fact in ("Network\n", "GITHUB_REPO_URL (.env)", "Completed work", "STOPPING: ", "went wrong with ***"):
        assert fact in report, report
    assert "\x1b" not in log.read_text()
    assert "tide-and-time" not in report


def on_a_terminal(machine: Machine, *arguments: str) -> str:
    """Return what the command shows on a terminal, without colours."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=machine.folder,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while part := _read(ours):
            shown += part
        assert process.wait(timeout=120) == 0, shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m|\r", "", shown.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # the last process has closed it
