"""The recipe `registers`, end to end: replica, workers, Tor and databases are real processes, and some are killed."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psutil
import pytest
from tests.recipes.registers import DISTRIBUTED, SINGLE, Folder, Replica
from tests.recipes.yellowpages import MARK, RECIPES, in_order
from tests.services.chromium import need_chromium
from tests.services.postgres import PostgresServer
from tests.services.tor import TorNetwork
from tests.waiting import wait_until

# The private network is that of the tests of Tor.
from tests.scrape.tor.conftest import network, program  # isort: skip

__all__ = ["network", "program"]

QUICK = ("--seconds", "0", "--slow-seconds", "0.5", "--troubled", "0.3")
"""The registers are fast, and every third page fails when it is asked for first."""
_schemas = count()
MakeReplica = Callable[..., Replica]
MakeFolder = Callable[..., Folder]


@pytest.fixture
def make_replica() -> Iterator[MakeReplica]:
    made: list[Replica] = []

    def make(*options: str) -> Replica:
        made.append(Replica(*options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def make_folder(tmp_path: Path) -> Iterator[MakeFolder]:
    made: list[Folder] = []

    def make(replica: Replica, **options: str) -> Folder:
        made.append(Folder(tmp_path / "folder", replica, **options))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()


@pytest.fixture(params=["sqlite", "postgres"])
def medium(request: pytest.FixtureRequest) -> dict[str, str]:
    """A queue, and a place for records; in PostgreSQL with a password in its URL."""
    if request.param == "sqlite":
        return {}
    server: PostgresServer = request.getfixturevalue("server")
    number = next(_schemas)
    return {
        "queue": f"{server.url}?schema=registers_{number}",
        "LONGSHORE_RECORDS_DATABASE": f"{server.url}?schema=prices_{number}",
    }


def assert_perfect(folder: Folder, replica: Replica, register: str, run: str) -> None:
    """Every record of the truth was found, with every field, once, and nothing else."""
    assert in_order(folder.found(run)) == in_order(replica.truth(register))


@pytest.mark.ledger("D1", "D2", "D4", "D5", "D6")
def test_all_that_is_true_is_found_once_although_workers_are_killed(
    medium: dict[str, str], make_replica: MakeReplica, make_folder: MakeFolder
) -> None:
    replica = make_replica("--size", "40", *QUICK, "--hold-after", "6")
    folder = make_folder(replica, LONGSHORE_CONCURRENCY="2", **medium)
    runs = {}
    for register in DISTRIBUTED:
        queued = folder.queued(register)
        assert list(queued) == ["status", "run_id", "enqueued", "duplicates", "worker_command"]
        assert (queued["status"], queued["enqueued"], queued["duplicates"]) == ("queued", 40, 0)
        assert "postgresql" not in json.dumps(queued), "no queue, and so no password"
        runs[register] = queued["run_id"]
        folder.begin(queued["worker_command"], f"{register}.out")
    again = folder.started("India", "--urls-file", "India.txt", "--run-id", runs["India"])
    assert (again["enqueued"], again["duplicates"]) == (0, 40)
    for register, run in runs.items():
        wait_until(lambda run=run: folder.counted(run).completed >= 1)  # type: ignore[misc]
        (worker,) = folder.of_run(run)
        worker.kill()
        # Its successor, with other options than were printed.
        command = [sys.executable, "-m", "registers.worker", "--scraper", register, "--run-id", run]
        folder.begin(command, f"{register}.out")
        replica.read(f"{register}/go")
    for register, run in runs.items():
        wait_until(lambda run=run: not folder.counted(run).remaining)  # type: ignore[misc]
        wait_until(lambda run=run: not folder.of_run(run))  # type: ignore[misc]
        counted = folder.counted(run)
        assert (counted.completed, counted.failed) == (40, 0), folder.said(f"{register}.out")
        assert f"run {run} is finished" in folder.said(f"{register}.out"), "it ends by itself"
        assert_perfect(folder, replica, register, run)
        troubles = [name for name in replica.counts(register) if name.startswith("first time: ")]
        assert len(troubles) == 5, "every trouble was met"


@pytest.mark.ledger("D2", "D6")
def test_a_single_scraper_that_was_killed_is_resumed(
    medium: dict[str, str], make_replica: MakeReplica, make_folder: MakeFolder
) -> None:
    replica = make_replica("--size", "90", *QUICK, "--hold-after", "2")
    folder = make_folder(replica, LONGSHORE_CONCURRENCY="1", **medium)
    for register in SINGLE:
        folder.begin([sys.executable, "-m", "registers.start", register, "--run-id", f"r{register}"], "first.out")
    for register in SINGLE:
        wait_until(lambda run=f"r{register}": _completed(folder, run) >= 1)  # type: ignore[misc]
    folder.kill_all()
    wait_until(lambda: not folder.processes())
    counted = {register: folder.counted(f"r{register}") for register in SINGLE}
    assert all(each.remaining > 0 for each in counted.values()), "each was killed on its way"
    for register in SINGLE:
        replica.read(f"{register}/go")
    resumed = {
        register: folder.begin([sys.executable, "-m", "registers.start", register, "--resume"], f"{register}.out")
        for register in SINGLE
    }
    for register, start in resumed.items():
        assert start.wait(timeout=300) == 0, folder.said(f"{register}.out")
        # The JSON comes last, after what is said on the way.
        done = json.loads("{" + folder.said(f"{register}.out").rpartition("\n{")[2])
        assert (done["status"], done["run_id"], done["failed"], done["remaining"]) == (
            "completed",
            f"r{register}",
            0,
            0,
        )
        assert_perfect(folder, replica, register, f"r{register}")
    none = folder.run("registers.start", "Russia", "--resume")
    assert (none.returncode, "Leave --resume out to start a new one" in none.stderr) == (2, True)


def _completed(folder: Folder, run: str) -> int:
    """How many jobs are completed, also of a run that has not begun."""
    from longshore.errors import LongshoreError

    try:
        return folder.counted(run).completed
    except LongshoreError:
        return 0


@pytest.mark.ledger("D7")
def test_workers_follow_the_depth_of_the_queue(make_replica: MakeReplica, make_folder: MakeFolder) -> None:
    replica = make_replica("--size", "60", "--seconds", "0", "--slow-seconds", "0", "--unlimited", "--hold-after", "10")
    folder = make_folder(replica, LONGSHORE_CONCURRENCY="2", LONGSHORE_STAGGER="0", LONGSHORE_LOG_FORMAT="text")
    run = folder.queued("Malaysia")["run_id"]
    command = [sys.executable, "-m", "registers.worker", "--scraper", "Malaysia", "--run-id", run, "--batch-size", "2"]
    fleet = folder.begin([*command, "--autoscale", "1:3", "--per", "20"], "fleet.out")
    # The replica holds its answers back, so that none of them can finish before there are three.
    wait_until(lambda: len(folder.workers()) == 3 or fleet.poll() is not None)
    replica.read("Malaysia/go")
    assert fleet.wait(timeout=300) == 0, folder.said("fleet.out")
    log = (folder.folder / "logs" / "fleet.log").read_text()
    assert re.search(r"From 1 to 2 workers: \d+ pending, one worker for each 20 within 1:3", log), log
    assert folder.counted(run).completed == 60
    assert_perfect(folder, replica, "Malaysia", run)


@pytest.mark.ledger("D3")
def test_each_worker_has_a_tor_and_a_browser_of_its_own(
    network: TorNetwork, make_replica: MakeReplica, make_folder: MakeFolder
) -> None:
    need_chromium()
    replica = make_replica("--size", "16", "--seconds", "0.2", "--slow-seconds", "0.2", "--unlimited")
    asked = {"REGISTERS_TOR": "Taiwan", "REGISTERS_BROWSER": "all", "LONGSHORE_TOR_CONFIG": network.torrc}
    folder = make_folder(replica, LONGSHORE_CONCURRENCY="1", **asked)
    queued = folder.queued("Taiwan")
    run, port = queued["run_id"], replica.port_of("Taiwan")
    # No worker takes a job before both have what is theirs.
    assert folder.run("longshore", "pause", run).returncode == 0
    for number in range(2):
        folder.begin(queued["worker_command"], f"worker{number}.out")

    def tors() -> list[set[int]]:
        return [_below(worker, r"tor\b.* -f ") for worker in folder.of_run(run)]

    wait_until(lambda: [len(each) for each in tors()] == [1, 1])
    own = set.union(*tors())
    assert len(own) == 2
    assert folder.run("longshore", "resume", run).returncode == 0
    browsers: dict[int, set[int]] = {}
    seen_from = set[str]()

    def done() -> bool:
        for worker in folder.of_run(run):
            browsers.setdefault(worker.pid, set()).update(_below(worker, "--remote-debugging-pipe"))
            if port in _remote_ports(worker.pid, *psutil_children(worker)):
                seen_from.add("a worker or its browser")
        seen_from.update("an exit" for pid in network.exits if port in _remote_ports(pid))
        return folder.counted(run).remaining == 0

    wait_until(done)
    wait_until(lambda: not folder.of_run(run))
    assert seen_from == {"an exit"}
    one, other = browsers.values()
    assert one
    assert other
    assert not one & other
    assert_perfect(folder, replica, "Taiwan", run)


def psutil_children(process: psutil.Process) -> list[int]:
    """The processes below this one, without Tor, which may connect to anything."""
    try:
        return [each.pid for each in process.children(recursive=True) if each.name() != "tor"]
    except psutil.NoSuchProcess:
        return []


def _below(worker: psutil.Process, pattern: str) -> set[int]:
    """The processes below a worker whose command matches, without those that such a process has started."""
    try:
        below = worker.children(recursive=True)
        return {
            each.pid
            for each in below
            if re.search(pattern, line := " ".join(each.cmdline())) and "--type=" not in line and "bash" not in line
        }
    except psutil.NoSuchProcess:
        return set()


def _remote_ports(*pids: int) -> set[int]:
    found = set[int]()
    for pid in pids:
        try:
            connections = psutil.Process(pid).net_connections("tcp4")
        except psutil.NoSuchProcess:
            continue
        found |= {each.raddr.port for each in connections if each.raddr}
    return found


@pytest.mark.ledger("D1")
def test_a_file_of_any_length_is_read_in_bounded_memory(
    make_folder: MakeFolder, make_replica: MakeReplica, long: bool
) -> None:
    folder = make_folder(make_replica("--size", "1"))
    peaks = []
    for number in (2_000, 1_000_000 if long else 40_000):
        with (folder.folder / "many.txt").open("w") as file:
            file.writelines(f"http://127.0.0.1:1/product/IN{each:06}\n" for each in range(number))
        script = (
            "import resource, sys; from registers import start\n"
            "start.main(['India', '--urls-file', 'many.txt', '--dry-run'])\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=folder.folder,
            env=folder.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        printed, _, peak = done.stdout.rstrip().rpartition("\n")
        assert json.loads(printed) == {"status": "dry_run", "enqueued": number, "duplicates": 0}
        peaks.append(int(peak))
    # Kilobytes. The URLs of the longer file alone are more than this if they are kept: 150 bytes each at least.
    assert peaks[1] - peaks[0] < (20_000 if long else 5_000)


@pytest.mark.ledger("D6", "D9")
def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    page = (RECIPES / "registers" / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    folder = _Plain(tmp_path)
    replica: subprocess.Popen[str] | None = None
    run = printed = ""
    try:
        for command in commands:
            if "registers.replica" in command:
                # Its port may be taken on the machine that tests; fewer products are enough.
                free = command.replace("--port 8030", "--port 0 --size 40 --seconds 0 --slow-seconds 0.2")
                assert free != command
                replica = subprocess.Popen(
                    shlex.split(free), cwd=tmp_path, env=folder.environment, stdout=subprocess.PIPE, text=True
                )
                assert replica.stdout is not None
                url, dotenv = replica.stdout.readline().split()[-1], tmp_path / ".env"
                dotenv.write_text(dotenv.read_text().replace("http://127.0.0.1:8030", url))
                continue
            done = folder.shell(command.replace("20260215_120000", run) if run else command)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            printed += done.stdout
            if '"worker_command"' in done.stdout:
                run = json.loads(done.stdout)["run_id"]
        assert printed.count("0 missing, 0 invented, 0 repeated") == 2
        for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
            done = folder.shell(f"python -c {shlex.quote(block)}")
            assert done.returncode == 0, f"{block}\n{done.stderr}"
        assert len(commands) == 13
        assert (tmp_path / "prices.csv").read_text().startswith("product,")
    finally:
        if replica is not None:
            replica.send_signal(signal.SIGKILL)
            replica.communicate()


class _Plain:
    """A folder in which commands are typed."""

    def __init__(self, folder: Path) -> None:
        from tests.kit.task_server import clean_environment

        self.folder = folder
        self.environment = clean_environment() | {MARK: str(folder), "LONGSHORE_HOST_FIRST_RATE": "20"}
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{self.environment['PATH']}"

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
