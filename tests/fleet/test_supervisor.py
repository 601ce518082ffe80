"""The supervisor, with real processes: crashes, restarts, drains, and nothing left behind (B10 in part)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from longshore.fleet.supervise.supervisor import (
    MAX_RESTARTS,
    Fleet,
    Phase,
    Stop,
    WorkerCommand,
    WorkerExit,
    how_it_ended,
)
from longshore.settings import SecondsRange

# Stands in for a worker: says when it is ready, counts the requests to stop, and obeys the second.
PATIENT = """
import pathlib, signal, sys, threading
from longshore.fleet.supervise.lifeline import hold_on
asked = threading.Semaphore(0)
hold_on(asked.release)
ready = pathlib.Path(sys.argv[1])
ready.with_suffix(".part").write_text("ready")
ready.with_suffix(".part").rename(ready)
asked.acquire()
print("first", flush=True)
if sys.argv[2] == "stubborn":
    asked.acquire()
    print("second", flush=True)
    sys.exit(130)
"""


# Leaves a copy of itself behind that holds all its pipes, and then ends as the second argument says.
FORKED = """
import os, pathlib, sys, time
copy = os.fork()
if copy == 0:
    time.sleep(3600)
ready = pathlib.Path(sys.argv[1])
ready.with_suffix(".part").write_text(str(copy))
ready.with_suffix(".part").rename(ready)
if sys.argv[2] == "never":
    time.sleep(3600)
print("goodbye", flush=True)
os._exit(int(sys.argv[2]))
"""


DEAF = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(3600)"


class HastyClock:
    """A clock whose sleeps end at once and are written down, and on which every worker lives as long as is said."""

    boot = ""

    def __init__(self, lives: float = 0.0) -> None:
        self.slept: list[float] = []
        self._lives = lives
        self._time = 0.0

    def now(self) -> float:
        return self._time

    def monotonic(self) -> float:
        self._time += self._lives
        return self._time

    def boottime(self) -> float:
        return self.monotonic()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def command(tmp_path: Path, code: str, *arguments: str, name: str = "worker 1") -> WorkerCommand:
    return WorkerCommand(
        name=name,
        arguments=(sys.executable, "-c", code, *arguments),
        log=tmp_path / "logs" / f"{name}.log",
        environment=dict(os.environ),
    )


def silent(_: str) -> None:
    return None


def gone(pid: int) -> bool:
    """Whether it has ended, or does so in a moment; a dead process whose parent does not care counts."""
    try:
        process = psutil.Process(pid)
        process.wait(20)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


async def appeared(path: Path) -> None:
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(0.01)


async def test_a_worker_that_ends_well_is_not_started_again(tmp_path: Path) -> None:
    start = command(tmp_path, "print('done')")
    endings = await Fleet([start], silent).run()
    assert endings == [WorkerExit(start, exit_code=0, restarts=0, done=True)]
    assert start.log.read_text() == "done\n"


async def test_a_worker_that_was_started_wrongly_is_not_started_again(tmp_path: Path) -> None:
    clock = HastyClock()
    [ending] = await Fleet([command(tmp_path, "raise SystemExit(2)")], silent, clock).run()
    assert (ending.exit_code, ending.restarts, clock.slept) == (2, 0, [])


# Ends in the middle of its work at its first start, and well at the next.
CUT_OFF = """
import os, pathlib, sys
print("a report", flush=True)
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "x")
    os._exit(int(sys.argv[2]))
print("goodbye")
"""


@pytest.mark.parametrize(("code", "how"), [("0", "ended with exit code 0 in the middle"), ("2", "exit code 2; start")])
async def test_a_worker_that_ends_in_the_middle_of_its_work_has_crashed_whatever_its_exit_code(
    tmp_path: Path, code: str, how: str
) -> None:
    said: list[str] = []
    start = command(tmp_path, CUT_OFF, str(tmp_path / "once"), code)
    [ending] = await Fleet([start], said.append, HastyClock(), heard=lambda *_: None).run()
    assert ending == WorkerExit(start, exit_code=0, restarts=1, done=True)
    assert how in said[0]


async def test_a_worker_that_never_says_goodbye_is_given_up_and_not_done(tmp_path: Path) -> None:
    [ending] = await Fleet([command(tmp_path, "pass")], silent, HastyClock(), heard=lambda *_: None).run()
    assert (ending.exit_code, ending.restarts, ending.done) == (0, MAX_RESTARTS, False)


async def test_a_worker_that_cannot_start_again_because_of_a_broken_file_is_tried_again(tmp_path: Path) -> None:
    # Crashes, then finds its settings broken twice, then mended.
    ends = (
        "import sys; f = open(sys.argv[1], 'a+'); f.write('x'); f.flush(); f.seek(0);"
        "sys.exit([7, 2, 2, 0][len(f.read()) - 1])"
    )
    clock, said = HastyClock(), list[str]()
    [ending] = await Fleet([command(tmp_path, ends, str(tmp_path / "tally"))], said.append, clock).run()
    assert (ending.exit_code, ending.restarts, ending.done) == (0, 3, True)
    assert clock.slept == [0.5, 1, 2]
    assert "worker 1 ended with exit code 2; starting it again in 1 s" in said[1]


async def test_a_worker_that_cannot_be_started_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    bad, good = command(tmp_path, "pass"), command(tmp_path, "pass", name="worker 2")
    long = command(tmp_path, "x" * 10_000_000, name="worker 3")
    bad.log.mkdir(parents=True)
    said: list[str] = []
    fleet = Fleet([bad, good, long], said.append)
    endings = await fleet.run()
    assert [ending.exit_code for ending in endings] == [None, 0, None]
    assert [post.phase for post in fleet.posts.values()] == [Phase.GIVEN_UP, Phase.ENDED, Phase.GIVEN_UP]
    assert sorted(line.partition(":")[0] for line in said) == [
        "worker 1 cannot be started",
        "worker 3 cannot be started",
    ]
    assert any(str(bad.log) in line for line in said)


async def test_a_worker_that_cannot_be_started_again_is_tried_again_like_one_that_crashed(tmp_path: Path) -> None:
    # Puts a folder in the place of its log, so that nobody can be started with it.
    code = "import os, sys; os.remove(sys.argv[1]); os.mkdir(sys.argv[1]); os._exit(7)"
    log = command(tmp_path, code).log
    clock, said = HastyClock(), list[str]()
    fleet = Fleet([command(tmp_path, code, str(log))], said.append, clock)
    [ending] = await fleet.run()
    assert (ending.exit_code, ending.restarts, clock.slept) == (7, MAX_RESTARTS, [0.5, 1, 2, 4, 8])
    assert "worker 1 cannot be started: " in said[-1]
    assert "is given up" in said[-1]


async def test_a_crashing_worker_is_started_again_with_growing_waits_and_given_up_after_five(tmp_path: Path) -> None:
    clock, said = HastyClock(), list[str]()
    [ending] = await Fleet([command(tmp_path, "raise SystemExit(7)")], said.append, clock).run()
    assert (ending.exit_code, ending.restarts, ending.done) == (7, MAX_RESTARTS, False)
    assert clock.slept == [0.5, 1, 2, 4, 8]
    assert "worker 1 ended with exit code 7; starting it again in 0.5 s" in said[0]
    assert "given up" in said[-1]


async def test_a_worker_that_had_lived_well_is_not_given_up(tmp_path: Path) -> None:
    # Crashes more often than a broken one would be let to, then ends well.
    tally = tmp_path / "tally"
    code = "import sys; f = open(sys.argv[1], 'a+'); f.write('x'); f.flush(); f.seek(0); sys.exit(len(f.read()) < 9)"
    clock = HastyClock(lives=60.0)
    [ending] = await Fleet([command(tmp_path, code, str(tally))], silent, clock).run()
    assert (ending.exit_code, ending.restarts) == (0, 8)
    assert set(clock.slept) == {0.5}


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_a_killed_worker_is_started_again_and_the_end_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    code = (
        "import os, sys\nif not os.path.exists(sys.argv[1]):\n    open(sys.argv[1], 'x')\n    os.kill(os.getpid(), 9)\n"
    )
    [ending] = await Fleet([command(tmp_path, code, str(tmp_path / "once"))], said.append, HastyClock()).run()
    assert (ending.exit_code, ending.restarts) == (0, 1)
    assert "was killed (SIGKILL)" in said[0]


async def test_the_first_stop_drains_and_nothing_is_started_again(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    start = command(tmp_path, PATIENT, str(ready), "obedient")
    fleet = Fleet([start], silent)
    running = asyncio.create_task(fleet.run())
    await appeared(ready)
    fleet.stop()
    [ending] = await running
    assert (ending.exit_code, ending.restarts) == (0, 0)
    assert start.log.read_text() == "first\n"


async def test_the_second_stop_makes_a_worker_leave(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    start = command(tmp_path, PATIENT, str(ready), "stubborn")
    fleet = Fleet([start], silent)
    running = asyncio.create_task(fleet.run())
    await appeared(ready)
    fleet.stop()
    fleet.stop()
    [ending] = await running
    assert ending.exit_code == 130
    assert start.log.read_text() == "first\nsecond\n"


async def test_a_worker_that_does_not_leave_when_it_must_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.fleet.supervise.supervisor.GRACE", 0.2)
    ready = tmp_path / "ready"
    fleet = Fleet([command(tmp_path, DEAF, str(ready))], silent)
    running = asyncio.create_task(fleet.run())
    await appeared(ready)
    [pid] = fleet.pids
    fleet.stop()
    fleet.stop()
    [ending] = await running
    assert not ending.done
    assert not psutil.pid_exists(pid)


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
async def test_the_end_of_a_worker_that_forked_is_noticed_and_what_it_forked_ends_with_it(tmp_path: Path) -> None:
    ready, heard = tmp_path / "ready", list[bytes]()
    async with asyncio.timeout(20):
        [ending] = await Fleet(
            [command(tmp_path, FORKED, str(ready), "0")], silent, heard=lambda _, line: heard.append(line)
        ).run()
    assert (ending.exit_code, ending.done) == (0, True)
    assert gone(int(ready.read_text()))


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
async def test_a_worker_that_forked_and_crashed_is_started_again(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        [ending] = await Fleet(
            [command(tmp_path, FORKED, str(tmp_path / "ready"), "7")], silent, HastyClock(), heard=lambda *_: None
        ).run()
    assert (ending.exit_code, ending.restarts) == (7, MAX_RESTARTS)


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_worker_that_forked_can_be_made_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    monkeypatch.setattr("longshore.fleet.supervise.supervisor.GRACE", 0.2)
    ready = tmp_path / "ready"
    fleet = Fleet([command(tmp_path, FORKED, str(ready), "never")], silent, heard=lambda *_: None)
    running = asyncio.create_task(fleet.run())
    await appeared(ready)
    [pid] = fleet.pids
    if cancelled:
        running.cancel()
    else:
        fleet.stop(Stop.RELEASE)
    await asyncio.wait({running}, timeout=20)
    assert running.done()
    assert gone(pid)
    assert gone(int(ready.read_text()))


async def test_a_supervisor_that_is_cancelled_leaves_no_worker_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.fleet.supervise.supervisor.GRACE", 0.2)
    ready = tmp_path / "ready"
    fleet = Fleet([command(tmp_path, DEAF, str(ready))], silent)
    running = asyncio.create_task(fleet.run())
    await appeared(ready)
    [pid] = fleet.pids
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not psutil.pid_exists(pid)


async def test_workers_notice_that_their_supervisor_was_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    log = tmp_path / "log"
    supervisor = f"""
import asyncio, os, pathlib, sys
from longshore.fleet.supervise.supervisor import Fleet, WorkerCommand
worker = (sys.executable, "-c", {PATIENT!r}, sys.argv[1], "obedient")
asyncio.run(Fleet([WorkerCommand("w", worker, pathlib.Path(sys.argv[2]), dict(os.environ))], print).run())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", supervisor, str(ready), str(log))
    await appeared(ready)
    [worker] = psutil.Process(parent.pid).children()
    parent.kill()
    await parent.wait()
    await asyncio.to_thread(psutil.wait_procs, [worker], 20)
    assert not worker.is_running()
    assert log.read_text() == "first\n"


async def test_workers_are_started_one_after_another_with_pauses_within_the_range(tmp_path: Path) -> None:
    clock = HastyClock()
    commands = [command(tmp_path, "pass", name=f"worker {number}") for number in range(4)]
    endings = await Fleet(commands, silent, clock, SecondsRange(2.0, 5.0)).run()
    assert [ending.exit_code for ending in endings] == [0, 0, 0, 0]
    assert len(clock.slept) == 3
    assert all(2.0 <= pause <= 5.0 for pause in clock.slept)
    assert len(set(clock.slept)) == 3


async def test_a_fleet_that_is_stopped_while_it_starts_starts_nobody_else(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    commands = [command(tmp_path, PATIENT, str(ready), "obedient"), command(tmp_path, "pass", name="worker 2")]
    fleet = Fleet(commands, silent, stagger=SecondsRange(3600.0, 3600.0))
    running = asyncio.create_task(fleet.run())
    await appeared(ready)
    assert [post.phase for post in fleet.posts.values()] == [Phase.RUNNING, Phase.WAITING]
    fleet.stop()
    assert [ending.exit_code for ending in await running] == [0, None]
    assert {post.phase for post in fleet.posts.values()} == {Phase.ENDED}


async def test_one_worker_is_drained_while_the_others_go_on_and_another_is_added(tmp_path: Path) -> None:
    commands = [command(tmp_path, PATIENT, str(tmp_path / f"{n}"), "obedient", name=f"worker {n}") for n in range(3)]
    fleet = Fleet(commands[:2], silent)
    running = asyncio.create_task(fleet.run())
    await appeared(tmp_path / "1")
    fleet.drain("worker 1")
    fleet.add(commands[2])
    await appeared(tmp_path / "2")
    await appeared(tmp_path / "0")
    async with asyncio.timeout(20):
        while not fleet.posts["worker 1"].over:  # noqa: ASYNC110 (another process makes it so)
            await asyncio.sleep(0.01)
    assert [post.phase for post in fleet.posts.values()] == [Phase.RUNNING, Phase.ENDED, Phase.RUNNING]
    fleet.stop()
    assert [ending.exit_code for ending in await running] == [0, 0, 0]


async def test_a_drained_worker_is_not_made_to_leave_when_the_fleet_is_drained_too(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    start = command(tmp_path, PATIENT, str(ready), "stubborn")
    fleet = Fleet([start], silent)
    running = asyncio.create_task(fleet.run())
    await appeared(ready)
    fleet.drain(start.name)
    fleet.stop(Stop.DRAIN)
    fleet.stop(Stop.DRAIN)
    assert fleet.posts[start.name].asked is Stop.DRAIN
    fleet.stop(Stop.RELEASE)
    [ending] = await running
    assert ending.exit_code == 130


async def test_a_name_is_used_once_at_a_time_and_only_while_the_fleet_runs(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    start = command(tmp_path, PATIENT, str(ready), "obedient")
    fleet = Fleet([start], silent)
    with pytest.raises(RuntimeError):
        fleet.add(command(tmp_path, "pass", name="worker 2"))
    running = asyncio.create_task(fleet.run())
    await appeared(ready)
    with pytest.raises(ValueError, match="already exists"):
        fleet.add(start)
    fleet.stop()
    await running


async def test_what_a_worker_says_is_heard_to_its_last_word_and_does_not_get_into_its_log(tmp_path: Path) -> None:
    heard: list[tuple[str, bytes]] = []
    start = command(tmp_path, "import sys; print('a'); print('b'); print('log', file=sys.stderr); print('goodbye')")
    await Fleet([start], silent, heard=lambda name, line: heard.append((name, line))).run()
    assert heard == [("worker 1", b"a"), ("worker 1", b"b")]
    assert start.log.read_text() == "log\n"


async def test_a_line_beyond_all_measure_holds_nobody_up(tmp_path: Path) -> None:
    heard: list[bytes] = []
    [ending] = await Fleet(
        [command(tmp_path, "print('x' * 1_000_000); print('after'); print('goodbye')")],
        silent,
        heard=lambda _, line: heard.append(line),
    ).run()
    assert ending.exit_code == 0
    assert heard[-1] == b"after"
    assert max(map(len, heard)) < 200_000


async def test_what_runs_beside_the_workers_keeps_the_fleet_going(tmp_path: Path) -> None:
    fleet = Fleet([], silent)

    async def add_one() -> None:
        fleet.add(command(tmp_path, "pass"))

    [ending] = await fleet.run(add_one())
    assert ending.exit_code == 0


def test_what_a_worker_starts_does_not_hold_its_lifeline(tmp_path: Path) -> None:
    code = (
        "import os\nfrom longshore.fleet.supervise.lifeline import hold_on\nhold_on(lambda: None)\nprint(os.read(0, 1))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"....", capture_output=True, check=True)
    assert done.stdout.strip() == b"b''"


def test_the_end_of_a_process_is_said_in_words() -> None:
    assert how_it_ended(None) == "never started"
    assert how_it_ended(3) == "ended with exit code 3"
    assert how_it_ended(-200) == "was killed (signal 200)"
