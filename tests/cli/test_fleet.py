"""`longshore fleet`: the launcher, the supervision and the end of it (B5, B6, B7, B10, B11)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.services.postgres import free_port
from tests.waiting import wait_until

from longshore.extensions.find import require
from longshore.extensions.presence import FleetInfo, MembershipInfo, WorkerInfo, WorkerRegistry
from longshore.lease import WorkerId
from longshore.media import open_queue

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


TARGETS = """import asyncio, os
from longshore import handler

@handler("target", timeout=30, retries=0)
async def target(job):
    await asyncio.sleep(job.payload.get("seconds", 0))
    return {"worker": job.worker}
"""
STATES = ("CA", "NV", "TX", "WA")


@pytest.fixture
def states(shell: Shell) -> Shell:
    """A folder with run `r`: three targets in each of four partitions."""
    shell.write("targets.py", TARGETS)
    submit(shell, [{"payload": {"n": n, "in": state}, "partition": state} for state in STATES for n in range(3)])
    return shell


def submit(shell: Shell, jobs: list[dict[str, Any]]) -> None:
    shell.write("jobs.jsonl", "\n".join(json.dumps(job) for job in jobs))
    done = shell("submit", "target", "--jobs-file", "jobs.jsonl", "--run", "r")
    assert done.returncode == 0, done.stderr


def fleet(shell: Shell, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return shell("fleet", "targets.py", "--run", "r", "--stagger", "0", *arguments, **variables)


def finished(shell: Shell, *arguments: str) -> str:
    """What a fleet says that must work its run off and end well."""
    done = fleet(shell, "--until-done", "--yes", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lanes(shell: Shell) -> dict[str, int]:
    """How many jobs of each partition are completed."""
    found = shell.json("status", "r", "--json")["lanes"]
    return {lane["partition"]: lane["completed"] for lane in found if lane["completed"]}


def who_did(shell: Shell) -> dict[str, set[str]]:
    """The workers that completed jobs of each partition."""
    jobs = shell.json("jobs", "--run", "r", "--state", "completed", "--json")
    return {state: {job["worker"] for job in jobs if job.get("partition") == state} for state in STATES}


def test_a_run_is_worked_off_and_every_worker_has_a_log_of_its_own(states: Shell) -> None:
    said = finished(states, "--workers", "2")
    assert "12 completed, 0 failed" in said
    assert "Nothing is left to do: 12 jobs in all." in said
    assert lanes(states) == dict.fromkeys(STATES, 3)
    logs = states.folder / "logs"
    assert sorted(log.name for log in logs.iterdir()) == ["fleet.log", "worker_0.log", "worker_1.log"]
    assert "Final statistics" in (logs / "worker_1.log").read_text()
    manager = (logs / "fleet.log").read_text()
    assert "worker 0 started (process " in manager
    assert "worker 1 ended with exit code 0" in manager
    assert not (states.folder / ".longshore" / "fleet.json").exists()


def test_a_worker_is_called_after_host_folder_and_number_also_when_started_again(states: Shell) -> None:
    finished(states, "--workers", "1")
    [first] = set().union(*who_did(states).values())
    submit(states, [{"payload": {"again": True}, "partition": "CA"}])
    finished(states, "--workers", "1")
    assert set().union(*who_did(states).values()) == {first}
    assert first.endswith("-0")


def test_a_dry_run_shows_everything_and_starts_nothing(states: Shell) -> None:
    done = fleet(states, "--workers", "2", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "fine, nothing in the way" in done.stdout
    assert ["0", "CA,", "NV", "2", "6"] in [line.split() for line in done.stdout.splitlines()]
    assert ["1", "TX,", "WA", "2", "6"] in [line.split() for line in done.stdout.splitlines()]
    assert "0 of 12 jobs done (0 %), 12 pending" in done.stdout
    assert "not known yet: nothing of this run has been done" in done.stdout
    assert not (states.folder / "logs").exists()


def test_the_time_is_estimated_from_what_is_done_and_says_so(states: Shell) -> None:
    submit(states, [{"payload": {"n": n, "seconds": 0.2}, "partition": "CA"} for n in range(5)])
    finished(states, "--workers", "1", "--partitions", "CA")
    said = fleet(states, "--workers", "3", "--dry-run", "--concurrency", "2").stdout
    assert "or more: 8 finished jobs took" in said
    assert "3 × 2 at once" in said


def register(shell: Shell, *infos: WorkerInfo) -> None:
    """Register workers that publish this about themselves."""

    async def registered() -> None:
        queue = await open_queue(f"sqlite:///{shell.folder}/.longshore/queue.db")
        for number, info in enumerate(infos):
            worker = WorkerId(f"elsewhere-{number}", "once")
            await require(queue, WorkerRegistry, "lacks it").register(worker, timedelta(hours=1), info)
        await queue.close()

    asyncio.run(registered())


def member(number: int, *, run: str = "r", fleet: str = "elsewhere") -> WorkerInfo:
    """Return what a worker that shares the partitions of a run publishes."""
    membership = MembershipInfo(run=run, number=number)
    return WorkerInfo(fleet=FleetInfo(name=fleet, number=number), membership=membership)


def test_workers_of_other_machines_have_their_share_and_count_in_the_estimate(states: Shell) -> None:
    submit(states, [{"payload": {"n": n, "seconds": 0.2}, "partition": "CA"} for n in range(5)])
    finished(states, "--workers", "1", "--partitions", "CA")
    register(states, member(0), member(1), member(2), member(3, run="another"))
    said = fleet(states, "--workers", "1", "--dry-run", "--concurrency", "2").stdout
    assert "3 other workers are on this run; they share the partitions" in said
    [row] = [line.split() for line in said.splitlines() if line.split()[:1] == ["0"]]
    assert row[2] == "1", "four workers share four partitions"
    assert "4 × 2 at once, with the 3 others" in said


def test_workers_of_the_same_fleet_in_an_earlier_life_are_no_others(states: Shell) -> None:
    register(states, member(0, fleet="mine"), member(1, fleet="mine"))
    said = fleet(states, "--workers", "2", "--dry-run", LONGSHORE_WORKER_ID="mine").stdout
    assert "other" not in said.replace("helps the others", "")
    assert ["0", "CA,", "NV", "2", "6"] in [line.split() for line in said.splitlines()]


def test_workers_that_share_no_partitions_are_counted_too(shell: Shell) -> None:
    shell.write("targets.py", TARGETS)
    submit(shell, [{"payload": {"n": n}} for n in range(3)])
    register(shell, WorkerInfo(fleet=FleetInfo(name="elsewhere", number=0), run="r"))
    said = fleet(shell, "--workers", "1", "--dry-run").stdout
    assert "1 other worker is on this run\n" in said
    assert "1; no partitions, so it takes whatever is next" in said


def test_the_limit_of_a_profile_is_said_with_what_it_leaves_undone(states: Shell) -> None:
    said = fleet(states, "--workers", "2", "--profile", "development", "--dry-run").stdout
    assert "each worker stops after 5 jobs (profile development): at most 10 of 12 will be done" in said
    said = fleet(states, "--workers", "2", "--dry-run", LONGSHORE_MAX_WORK="6").stdout
    assert "each worker stops after 6 jobs (LONGSHORE_MAX_WORK (environment))\n" in said


def test_a_worker_that_is_alone_has_no_others_to_help(states: Shell) -> None:
    assert "1; it has every partition\n" in fleet(states, "--workers", "1", "--dry-run").stdout


@pytest.mark.parametrize("named", [(), ("--queue", "sqlite:///new/jobs.db"), ("--queue", "dir://new")])
def test_looking_makes_nothing(shell: Shell, named: tuple[str, ...]) -> None:
    shell.write("targets.py", TARGETS)
    before = sorted(shell.folder.rglob("*"))
    done = shell("fleet", "targets.py", "--dry-run", *named, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not known: there are no jobs yet" in done.stdout
    assert sorted(shell.folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("option", "given", "right"),
    [("--autoscale", "5:1", "1:5"), ("--stagger", "5-2", "2-5"), ("--stagger", "9-1.5", "1.5-9")],
)
def test_a_range_whose_larger_number_comes_first_is_told_so(
    here: Path, refused: Callable[..., str], option: str, given: str, right: str
) -> None:
    error = refused("fleet", "targets.py", option, given)
    assert f"{option} cannot be '{given}': the smaller number comes first, {right}." in error


@pytest.mark.skipif(sys.platform == "win32", reason="no such terminals")
def test_on_a_terminal_lines_are_broken_between_words_and_go_on_below_their_text(shell: Shell) -> None:
    import pty

    shell.write("targets.py", TARGETS)
    submit(shell, [{"payload": {"n": n}} for n in range(3)])
    ours, theirs = pty.openpty()
    command = ("fleet", "targets.py", "--run", "r", "--autoscale", "1:10", "--dry-run")
    with subprocess.Popen(
        [sys.executable, "-m", "longshore", *command],
        cwd=shell.folder,
        env=shell.environment | {"TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        out = b""
        with suppress(OSError):  # the end of a terminal
            while some := os.read(ours, 65536):
                out += some
    os.close(ours)
    lines = [line.rstrip() for line in out.decode().splitlines()]
    assert max(map(len, lines)) <= 100
    place = next(number for number, line in enumerate(lines) if line.startswith("workers"))
    assert lines[place + 1].startswith(" " * len("workers  "))
    assert " ".join(" ".join(lines[place : place + 2]).split()) == (
        "workers 1 at first, then one for each 1,000 pending within 1:10; no partitions, so each takes whatever is next"
    )


def test_without_a_terminal_nobody_is_asked_and_nothing_starts(states: Shell) -> None:
    done = fleet(states, "--workers", "2")
    assert done.returncode == 2
    assert "This would start 2 workers, and there is no terminal to ask at. Add --yes." in done.stderr
    assert not (states.folder / "logs").exists()


def test_everything_that_is_wrong_is_named_at_once_and_nothing_starts(shell: Shell) -> None:
    shell.write("targets.py", "from longshore import handler\n\ndef broken(:\n")
    shell.write("table.toml", '0 = ["CA", "TX"]\n1 = ["CA"]\n')
    shell.write(".env.example", "# LONGSHORE_QUEUE=\n")
    done = shell("fleet", "targets.py", "--table", "table.toml", "--yes")
    assert done.returncode == 1
    assert "There is no .env here" in done.stdout
    assert "targets.py:3" in done.stdout
    assert "CA is listed for workers 0 and 1" in done.stdout

    queue = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    done = shell("fleet", "targets.py", "--table", "table.toml", "--yes", LONGSHORE_QUEUE=queue, PROXY_FILE="gone.txt")
    assert done.returncode == 1
    for named in ("targets.py:3", "CA is listed for workers 0 and 1", "gone.txt cannot be read"):
        assert named in done.stdout
    assert "127.0.0.1" in done.stdout
    assert "Nothing was started" in done.stderr
    assert not (shell.folder / "logs").exists()


@pytest.mark.parametrize("options", [(), ("--workers", "1"), ("--lease-seconds", "9"), ("--profile", "testing")])
def test_a_forgotten_dotenv_stops_it_whatever_other_options_there_are(states: Shell, options: tuple[str, ...]) -> None:
    states.write(".env.example", "# LONGSHORE_QUEUE=\n")
    done = states("fleet", "targets.py", "--dry-run", *options)
    assert done.returncode == 1, done.stdout
    assert "There is no .env here, and nothing else names the queue." in done.stdout
    assert "Nothing was started" in done.stderr


def test_a_forgotten_dotenv_is_no_fault_where_the_command_line_names_the_queue(states: Shell) -> None:
    states.write(".env.example", "# LONGSHORE_QUEUE=\n")
    done = states("fleet", "targets.py", "--dry-run", "--queue", "sqlite:///.longshore/queue.db")
    assert done.returncode == 0, done.stdout


def test_what_a_table_lacks_is_named_with_everything_else_that_is_wrong(shell: Shell) -> None:
    shell.write("targets.py", 'PARTITIONS = [\n    "CA",\n    "WA",  # in the north\n]\n\ndef broken(:\n')
    shell.write("table.toml", '0 = ["CA"]\n')
    queue = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    order = ("fleet", "targets.py", "--table", "table.toml", "--yes")
    by_the_file = shell(*order, LONGSHORE_QUEUE=queue)
    by_the_order = shell(*order, "--partitions", "CA,NV", LONGSHORE_QUEUE=queue)
    for done in (by_the_file, by_the_order):
        assert done.returncode == 1
        assert "targets.py:6" in done.stdout
        assert "cannot be reached" in done.stdout
        assert "No worker has WA." in done.stdout
    assert "No worker has NV, which --partitions names." in by_the_order.stdout


def test_a_table_may_hold_more_than_what_the_work_is_limited_to(states: Shell) -> None:
    states.write("table.toml", '0 = ["CA", "TX"]\n1 = ["NV"]\n')
    done = fleet(states, "--table", "table.toml", "--partitions", "CA,NV", "--dry-run")
    assert done.returncode == 0, done.stdout
    assert "0 of 6 jobs done (0 %), 6 pending; counted are only the partitions of --partitions" in done.stdout


@pytest.mark.parametrize("named_in", ["the queue", "the handler file"])
def test_a_partition_that_is_missing_in_a_table_is_named(states: Shell, named_in: str) -> None:
    if named_in == "the handler file":
        states.write("targets.py", f"PARTITIONS = {[*STATES, 'ZZ']!r}\n{TARGETS}")
    states.write("table.toml", '0 = ["CA", "TX"]\n1 = ["NV"]\n')
    done = fleet(states, "--table", "table.toml", "--yes")
    assert done.returncode == 1
    assert ("There are jobs of WA" if named_in == "the queue" else "No worker has WA and ZZ.") in done.stdout


def test_a_table_says_who_has_what(states: Shell) -> None:
    states.write("table.toml", '0 = ["WA"]\n1 = ["CA", "NV", "TX"]\n')
    finished(states, "--table", "table.toml", "--strict-partitions")
    assert {state: {label[-2:] for label in labels} for state, labels in who_did(states).items()} == {
        "CA": {"-1"},
        "NV": {"-1"},
        "TX": {"-1"},
        "WA": {"-0"},
    }


def test_with_rotation_every_worker_is_said_to_use_all_proxies(states: Shell) -> None:
    states.write("proxies.txt", "".join(f"10.0.0.{n}:8080\n" for n in range(1, 6)))
    said = fleet(states, "--workers", "2", "--dry-run", PROXY_FILE="proxies.txt").stdout
    assert "5 in proxies.txt, all used by each of the 2 workers" in said


def test_proxies_and_the_share_of_each_worker_are_shown(states: Shell) -> None:
    states.environment["PROXY_ROTATION_ENABLED"] = "false"
    states.write("proxies.txt", "".join(f"10.0.0.{n}:8080\n" for n in range(1, 6)))
    assert (
        "5 in proxies.txt, 2 or 3 each" in fleet(states, "--workers", "2", "--dry-run", PROXY_FILE="proxies.txt").stdout
    )
    assert "proxies" not in fleet(states, "--workers", "2", "--dry-run").stdout
    said = fleet(states, "--workers", "6", "--dry-run", PROXY_FILE="proxies.txt").stdout
    assert "5 in proxies.txt, fewer than the 6 workers: some share one" in said


def test_a_trial_is_the_first_two_workers_with_what_they_have_in_the_whole_fleet(states: Shell) -> None:
    shown = fleet(states, "--workers", "4", "--dry-run").stdout
    of = {line.split()[0]: line.split()[1] for line in shown.splitlines() if line.split()[:1] in (["0"], ["1"])}
    said = finished(states, "--workers", "4", "--test")
    assert "2 of a fleet of 4; each keeps to its own" in said
    assert "0 of 6 jobs done (0 %), 6 pending; counted are only the partitions of these workers" in said
    assert lanes(states) == {of["0"]: 3, of["1"]: 3}
    logs = {log.name for log in (states.folder / "logs").iterdir()}
    assert logs == {"fleet.log", "worker_0.log", "worker_1.log"}


def test_only_the_partitions_that_are_named_are_worked_on(states: Shell) -> None:
    finished(states, "--workers", "2", "--partitions", "CA,TX")
    assert lanes(states) == {"CA": 3, "TX": 3}


def test_a_partition_that_is_not_there_is_refused(states: Shell) -> None:
    done = fleet(states, "--partitions", "CA,ZZ", "--yes")
    assert done.returncode == 2
    assert "There is no partition ZZ here. There are: CA, NV, TX, WA." in done.stderr


def test_a_run_that_never_was_is_refused_where_it_is_to_be_finished(states: Shell) -> None:
    done = states("fleet", "targets.py", "--run", "june", "--until-done", "--yes")
    assert done.returncode == 2
    assert "There is no run 'june'" in done.stderr


def test_a_run_without_partitions_is_shared_by_all(shell: Shell) -> None:
    shell.write("targets.py", TARGETS)
    submit(shell, [{"payload": {"n": n}} for n in range(10)])
    said = finished(shell, "--workers", "2")
    assert "no partitions, so each takes whatever is next" in said
    assert "10 completed" in said


def test_failed_jobs_are_no_fault_of_the_fleet_but_dead_processes_are(shell: Shell) -> None:
    shell.write("targets.py", TARGETS.replace("    await asyncio", "    1 / job.payload['n']\n    await asyncio"))
    submit(shell, [{"payload": {"n": 0}}])
    assert "0 completed, 1 failed" in finished(shell, "--workers", "1")

    shell.write("targets.py", TARGETS.replace("async def", "def").replace("    await asyncio.sleep(", "    os._exit("))
    submit(shell, [{"payload": {"n": 1, "seconds": 7}}])
    done = fleet(shell, "--workers", "1", "--until-done", "--yes")
    assert done.returncode == 1
    assert "Jobs failed because their process died: `longshore jobs --error crash`" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
class TestSignals:
    def started(self, shell: Shell, *arguments: str, jobs: int = 4, seconds: float = 3600) -> subprocess.Popen[str]:
        """A fleet of two that is in the middle of long jobs."""
        shell.write("targets.py", TARGETS)
        submit(shell, [{"payload": {"n": n, "seconds": seconds}} for n in range(jobs)])
        command = ("fleet", "targets.py", "--run", "r", "--stagger", "0", "--workers", "2", "--concurrency", "1")
        process = shell.start(*command, "--yes", *arguments)
        wait_until(lambda: all("Claimed" in self.log(shell, number) for number in (0, 1)))
        return process

    def log(self, shell: Shell, number: int) -> str:
        path = shell.folder / "logs" / f"worker_{number}.log"
        return path.read_text() if path.exists() else ""

    @pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_lets_every_worker_finish_what_it_holds(self, shell: Shell, asked: signal.Signals) -> None:
        process = self.started(shell, seconds=1)
        process.send_signal(asked)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
        assert "Finishing what is under way" in out
        assert "2 completed, 0 failed" in out
        assert "2 jobs still to do. The same command goes on from here." in out

    def test_the_second_gives_everything_back(self, shell: Shell) -> None:
        process = self.started(shell)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        while "Finishing" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Giving back what is under way" in out
        assert shell.json("status", "r", "--json")["pending"] == 4

    def test_a_worker_that_is_asked_before_it_has_begun_goes_without_a_fuss(self, shell: Shell) -> None:
        # The queue does not answer, so that the worker is not yet in a position to drain.
        shell.write("targets.py", TARGETS)
        queue = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
        command = [sys.executable, "-m", "longshore", "work", "targets.py", "--lifeline", "--queue", queue]
        with subprocess.Popen(
            command,
            cwd=shell.folder,
            env=shell.environment,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        ) as worker:
            assert worker.stderr is not None
            assert worker.stdin is not None
            while "unavailable" not in worker.stderr.readline():
                pass
            worker.stdin.write(".")
            worker.stdin.flush()
            assert worker.wait(timeout=60) == 0
            assert "Traceback" not in worker.stderr.read()

    def test_a_hangup_has_the_workers_read_their_settings_again(self, shell: Shell) -> None:
        process = self.started(shell)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: all("Settings read again" in self.log(shell, number) for number in (0, 1)))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    def test_a_second_fleet_in_the_same_folder_is_refused(self, shell: Shell) -> None:
        process = self.started(shell)
        done = fleet(shell, "--yes")
        assert done.returncode == 2
        assert "A fleet of 2 workers is at work in this folder already, on run r" in done.stderr
        assert shell("stop", "--now").returncode == 0
        process.communicate(timeout=60)
        assert process.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="no such terminals")
@pytest.mark.parametrize(("answer", "started"), [("\n", False), ("n\n", False), ("y\n", True)])
def test_on_a_terminal_the_person_is_asked_and_nothing_is_the_default(
    states: Shell, answer: str, started: bool
) -> None:
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "longshore", "fleet", "targets.py", "--run", "r", "--stagger", "0", "--until-done"],
        cwd=states.folder,
        env=states.environment,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0, out
    assert "Start 2 workers? [y/N]" in out
    assert ("Nothing was started." not in out) is started
    assert Counter(lanes(states)).total() == (12 if started else 0)


@pytest.mark.skipif(sys.platform == "win32", reason="no such terminals")
def test_a_terminal_that_is_closed_drains_the_fleet(states: Shell) -> None:
    import pty

    submit(states, [{"payload": {"long": n, "seconds": 2}, "partition": "CA"} for n in range(4)])
    leading = "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    become = f"{leading}os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = ("-m", "longshore", "fleet", "targets.py", "--run", "r", "--workers", "1", "--concurrency", "1", "--yes")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", become, *command],
        cwd=states.folder,
        env=states.environment | {"TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    log = states.folder / "logs" / "worker_0.log"

    def claimed() -> bool:
        with suppress(BlockingIOError):
            while os.read(ours, 65536):
                pass
        return log.exists() and "Claimed" in log.read_text()

    wait_until(claimed)
    os.close(ours)
    process.wait(timeout=60)
    manager = (states.folder / "logs" / "fleet.log").read_text()
    assert "The terminal was closed." in manager
    assert "worker 0 ended with exit code 0" in manager
    assert "still to do" in manager
    assert "received twice" not in log.read_text()


def test_the_folder_of_the_logs_must_be_one(states: Shell) -> None:
    Path(states.folder / "logs").write_text("a file")
    done = fleet(states, "--workers", "1", "--yes")
    assert done.returncode == 2
    assert "logs/fleet.log cannot be written" in done.stderr.replace(os.sep, "/")
