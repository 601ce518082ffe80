"""`longshore run` from end to end, with real workers, whatever is killed on the way."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.waiting import wait_until

from .conftest import Shell

# Each worker says that it has begun, and each attempt waits until the test opens the gate.
GATED = """
import asyncio, os
from pathlib import Path
from longshore import handler

@handler("page", timeout=60, retries=3)
async def page(job, kit):
    Path(f"begun-{os.getpid()}").touch()
    while not Path("gate").exists():
        await asyncio.sleep(0.01)
    return job.payload["url"]
"""
COUNT = 40


def until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for a condition that the process brings about."""
    deadline = time.monotonic() + 30
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [child for child in psutil.Process(process.pid).children() if "work" in child.cmdline()]


def logs(shell: Shell) -> str:
    return "\n".join(log.read_text() for log in sorted(shell.folder.glob(".longshore/logs/*/*.log")))


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def gated(shell: Shell) -> Iterator[Shell]:
    """A run of forty jobs that all wait; a lease of one second, so that what was killed comes back soon."""
    shell.write("gated.py", GATED)
    shell.urls(COUNT)
    shell.environment["LONGSHORE_LEASE_SECONDS"] = "1"
    yield shell
    for process in psutil.process_iter(["cwd"]):
        assert process.info["cwd"] != str(shell.folder), f"left behind: {process}"


COMMAND = ("run", "gated.py", "--urls-file", "urls.txt", "--workers", "2", "--concurrency", "4")


def begun(gated: Shell) -> subprocess.Popen[str]:
    process = gated.start(*COMMAND)
    until(lambda: len(list(gated.folder.glob("begun-*"))) == 2, process)
    return process


def settled_once(gated: Shell) -> None:
    """Every URL has one result, in one run, and nothing waits or is held."""
    found = results(gated.folder / "results.jsonl")
    assert sorted(line["result"] for line in found) == sorted(f"https://a.org/{n}" for n in range(COUNT))
    status = gated.json("status", "--json")
    assert (status["completed"], status["remaining"], status["failed"], len(status["runs"])) == (COUNT, 0, 0, 1)
    assert list((gated.folder / ".longshore" / "runs").iterdir()) == []


def test_the_smallest_handler_file_works_as_it_is(shell: Shell) -> None:
    shell.urls(300)
    done = shell("run", "pages.py", "--urls-file", "urls.txt")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "300 completed, 0 failed" in done.stderr
    assert "\x1b" not in done.stderr
    lines = results(shell.folder / "results.jsonl")
    assert len({line["key"] for line in lines}) == 300
    assert lines[7]["payload"] == {"url": "https://a.org/7"}
    assert lines[7]["result"] == {"length": 15}
    assert lines[7]["kind"] == "page"
    [run] = shell.json("status", "--json")["runs"]
    assert {line["run"] for line in lines} == {run["run"]}
    written = (shell.folder / ".longshore" / "logs" / run["run"]).iterdir()
    assert sorted(log.name for log in written) == ["worker_1.log", "worker_2.log"]
    assert f"logs     {Path('.longshore', 'logs', run['run'])}" in done.stderr


def test_results_go_to_standard_output_alone_where_that_is_asked_for(shell: Shell) -> None:
    shell.write("jobs.jsonl", '{"url": "a"}\n{"payload": {"url": "abc"}, "key": "k"}\n')
    done = shell("run", "pages.py", "--jobs-file", "jobs.jsonl", "--out", "-", "--workers", "1", "--run", "mine")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["run"], line["result"]) for line in lines] == [("mine", {"length": 1}), ("mine", {"length": 3})]
    assert not (shell.folder / "results.jsonl").exists()


def test_what_failed_is_told_and_the_commands_printed_work(shell: Shell) -> None:
    shell.write(
        "picky.py",
        "from longshore import handler, ProcessingError\n\n"
        '@handler("page", retries=0)\n'
        "async def page(job, kit):\n"
        '    if job.payload["url"].endswith("3"):\n'
        '        raise ProcessingError("no threes here")\n'
        "    return 1\n",
    )
    shell.urls(20)
    done = shell("run", "picky.py", "--urls-file", "urls.txt", "--queue", "sqlite:///q.db")
    assert done.returncode == 1
    assert "18 completed, 2 failed" in done.stderr
    assert "2 × processing (ProcessingError)" in done.stderr
    assert "https://a.org/3: no threes here" in done.stderr
    assert len(results(shell.folder / "results.jsonl")) == 18
    printed = re.search(r"-m longshore (jobs --state failed .*)", done.stderr)
    assert printed
    listed = shell(*shlex.split(printed[1]))
    assert listed.returncode == 0
    assert listed.stdout.count("no threes here") == 2


def test_handler_retries_decide_how_often_a_job_is_tried(shell: Shell) -> None:
    shell.write(
        "never.py",
        "from longshore import handler\n\n"
        '@handler("page", retries=1, backoff=0.01)\nasync def page(job):\n    raise RuntimeError("never")\n',
    )
    shell.urls(1)
    assert shell("run", "never.py", "--urls-file", "urls.txt", "--workers", "1").returncode == 1
    [job] = shell.json("jobs", "--json")
    assert (job["attempts"], job["max_attempts"], job["state"]) == (2, 2, "failed")


def test_follow_on_jobs_are_part_of_the_run(shell: Shell) -> None:
    shell.write(
        "follow.py",
        "from longshore import handler, new_job, Result\n\n"
        '@handler("page")\n'
        "async def page(job, kit):\n"
        '    depth = job.payload.get("depth", 0)\n'
        '    more = [new_job("page", {"url": job.payload["url"] + "x", "depth": depth + 1})] if depth < 2 else []\n'
        "    return Result(data=depth, jobs=more)\n",
    )
    shell.urls(3)
    done = shell("run", "follow.py", "--urls-file", "urls.txt")
    assert done.returncode == 0, done.stderr
    assert sorted(line["result"] for line in results(shell.folder / "results.jsonl")) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_limits_meant_for_a_worker_of_its_own_do_not_leave_a_run_unfinished(shell: Shell) -> None:
    shell.urls(20)
    done = shell("run", "pages.py", "--urls-file", "urls.txt", MAX_WORK_ORDERS="1", MAX_CONSECUTIVE_FAILURES="1")
    assert done.returncode == 0, done.stderr
    assert len(results(shell.folder / "results.jsonl")) == 20


def test_the_queue_of_the_command_line_goes_before_that_of_a_dotenv_file_in_the_workers_too(shell: Shell) -> None:
    shell.write(".env", "QUEUE_DIR=/nowhere\nSECRET_OF_MINE=42\n")
    shell.write(
        "reader.py",
        "import os\nfrom longshore import handler\n\n"
        '@handler("page")\nasync def page(job):\n    return os.environ["SECRET_OF_MINE"]\n',
    )
    shell.urls(2)
    done = shell("run", "reader.py", "--urls-file", "urls.txt", "--queue", "sqlite:///q.db")
    assert done.returncode == 0, done.stderr
    assert [line["result"] for line in results(shell.folder / "results.jsonl")] == ["42", "42"]


@pytest.mark.parametrize("name", ["items.csv", "items.csv.gz", "items.parquet", "items.db"])
def test_a_file_named_after_another_format_is_refused_before_anything_is_done(shell: Shell, name: str) -> None:
    shell.urls(3)
    done = shell("run", "pages.py", "--urls-file", "urls.txt", "--out", name)
    assert done.returncode == 2
    assert f"--out {name}: the results are written as JSONL" in done.stderr
    assert f"`longshore export RUN --out {name}`" in done.stderr
    assert not (shell.folder / ".longshore").exists()


def test_a_new_run_keeps_the_results_of_the_one_before_unless_it_is_told_to_replace_them(shell: Shell) -> None:
    shell.urls(3)
    command = ("run", "pages.py", "--urls-file", "urls.txt", "--workers", "1")
    assert shell(*command, "--run", "first").returncode == 0
    done = shell(*command, "--run", "second")
    assert "results  results-second.jsonl (3 lines)\n" in done.stderr
    assert "results.jsonl holds something else and was kept" in done.stderr
    assert {line["run"] for line in results(shell.folder / "results.jsonl")} == {"first"}
    assert {line["run"] for line in results(shell.folder / "results-second.jsonl")} == {"second"}
    done = shell(*command, "--run", "third", "--out", "results.jsonl")
    assert "results.jsonl (3 lines, replaced)" in done.stderr
    assert {line["run"] for line in results(shell.folder / "results.jsonl")} == {"third"}


def test_a_pipe_without_jobs_leaves_no_run_to_go_on_with(shell: Shell) -> None:
    done = shell("run", "pages.py", "--urls-file", "-", stdin="# nothing\n")
    assert done.returncode == 2
    assert "There are no jobs in standard input." in done.stderr
    assert list((shell.folder / ".longshore" / "runs").iterdir()) == []
    done = shell("run", "pages.py", "--urls-file", "-", stdin="https://a.org/\n")
    assert done.returncode == 0, done.stderr
    assert "Going on" not in done.stderr


def test_a_finished_run_is_delivered_again_without_new_work(shell: Shell) -> None:
    shell.urls(5)
    assert shell("run", "pages.py", "--urls-file", "urls.txt", "--run", "r").returncode == 0
    (shell.folder / "results.jsonl").unlink()
    done = shell("run", "pages.py", "--urls-file", "urls.txt", "--run", "r")
    assert done.returncode == 0, done.stderr
    assert "5 of them done before" in done.stderr
    assert len(results(shell.folder / "results.jsonl")) == 5


def test_workers_that_stop_too_early_are_explained(shell: Shell) -> None:
    shell.write(
        "shy.py",
        "from longshore import handler\nfrom longshore.worker import stop_condition\n\n"
        '@handler("page")\nasync def page(job):\n    return 1\n\n'
        '@stop_condition\ndef shy(snapshot):\n    return "not today"\n',
    )
    shell.urls(5)
    done = shell("run", "shy.py", "--urls-file", "urls.txt", "--workers", "1")
    assert done.returncode == 1
    assert "still to do" in done.stderr
    assert "worker 1 stopped before the run was done" in done.stderr
    assert "the same command goes on from here" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_killed_worker_costs_nothing(gated: Shell) -> None:
    process = begun(gated)
    workers_of(process)[0].kill()
    (gated.folder / "gate").touch()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert "was killed (SIGKILL); starting it again" in error
    settled_once(gated)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_after_the_whole_thing_was_killed_the_same_command_goes_on_with_the_same_run(gated: Shell) -> None:
    process = begun(gated)
    everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for each in everything:
        each.kill()
    psutil.wait_procs(everything)
    process.communicate()
    assert gated.json("status", "--json")["completed"] == 0
    (gated.folder / "gate").touch()
    done = gated(*COMMAND)
    assert done.returncode == 0, done.stderr
    assert "Continuing the unfinished run" in done.stderr
    settled_once(gated)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_workers_whose_supervisor_was_killed_finish_what_they_hold_and_leave(gated: Shell) -> None:
    process = begun(gated)
    workers = workers_of(process)
    process.kill()
    process.communicate()
    (gated.folder / "gate").touch()
    gone, left = psutil.wait_procs(workers, timeout=30)
    assert (len(gone), left) == (2, [])
    status = gated.json("status", "--json")
    assert status["claimed"] == 0, logs(gated)
    assert status["completed"] > 0
    done = gated(*COMMAND)
    assert done.returncode == 0, done.stderr
    settled_once(gated)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_first_ctrl_c_finishes_what_is_under_way_and_the_same_command_goes_on(gated: Shell) -> None:
    process = begun(gated)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    said = ""
    while "Ctrl-C again" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    # The message says that the workers are asked to stop, not that they have heard it.
    wait_until(lambda: logs(gated).count("STOPPING") == 2)
    (gated.folder / "gate").touch()
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, said + rest
    assert "the same command goes on from here" in rest
    printed = re.search(r"How far it is: .* -m longshore (status \S+)\n", rest)
    assert printed
    assert gated(*shlex.split(printed[1])).returncode == 0
    status = gated.json("status", "--json")
    assert status["claimed"] == 0, logs(gated)
    assert 0 < status["completed"] < COUNT
    assert gated(*COMMAND).returncode == 0
    settled_once(gated)


@pytest.mark.skipif(sys.platform != "linux", reason="a terminal of one's own")
def test_ctrl_c_on_a_terminal_leaves_neither_its_mark_nor_half_a_bar(gated: Shell) -> None:
    import termios

    keyboard, terminal = os.openpty()
    before = termios.tcgetattr(terminal)
    command = [sys.executable, "-m", "longshore", *COMMAND]
    # A process that leads a session and opens a terminal is at home there: Ctrl-C reaches it as a signal.
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(terminal), *command],
        cwd=gated.folder,
        env=gated.environment | {"TERM": "xterm"},
        start_new_session=True,
        text=True,
    )
    said = ""

    def hear(text: str) -> bool:
        nonlocal said
        while select.select([keyboard], [], [], 0.01)[0]:
            said += os.read(keyboard, 65536).decode(errors="replace")
        return text in said

    try:
        until(lambda: hear(f"0/{COUNT}") and len(list(gated.folder.glob("begun-*"))) == 2, process)
        os.write(keyboard, b"\x03")
        until(lambda: hear("Ctrl-C again") and logs(gated).count("STOPPING") == 2, process)
        (gated.folder / "gate").touch()
        while process.poll() is None:
            hear("")
        assert hear("How far it is")
        assert process.returncode == 130
        after = termios.tcgetattr(terminal)
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)
        os.close(terminal)
    assert "^C" not in said
    # The last thing that happens to the bar's line is that it is wiped.
    bar = said.rindex(f"/{COUNT}")
    assert "\x1b[2K" in said[bar : said.index("Stopped")]
    assert after == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_second_ctrl_c_gives_everything_back(gated: Shell) -> None:
    process = begun(gated)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    while "Ctrl-C again" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    status = gated.json("status", "--json")
    assert (status["pending"], status["claimed"], status["completed"]) == (COUNT, 0, 0)
    [job, *_] = gated.json("jobs", "--json")
    assert job["attempts"] == 0


SHOP = """
from longshore import handler

@handler("page", retries=0, keep=lambda record, kind: "too dear" if record["price"] > 2 else None)
async def page(url: str, kit):
    number = int(url.rpartition("/")[2])
    kit.emit({"price": number}, kind="item")
    if number == 5:
        raise KeyError("price")
"""


def test_it_ends_with_the_records_and_with_how_to_run_a_failure_again(shell: Shell) -> None:
    shell.write("shop.py", SHOP)
    shell.urls(6)
    done = shell("run", "shop.py", "--urls-file", "urls.txt", "--run", "monday", "--workers", "1")
    assert done.returncode == 1
    assert "  records  3 item, 2 rejected (2 too dear)\n" in done.stderr
    (command,) = re.findall(r"Run offline: .* (replay .longshore/bundles/monday-KeyError-\S+ shop.py)", done.stderr)
    assert shell(*command.split()).returncode == 1
    assert shell("records", "monday").stdout.split() == [
        "kind",
        "kept",
        "rejected",
        "why",
        "item",
        "3",
        "2",
        "2",
        "too",
        "dear",
    ]
    assert json.loads(shell("records", "monday", "--json").stdout)["rejected"] == {"item": {"too dear": 2}}
    assert shell("records", "tuesday").returncode == 2


def test_where_there_are_no_records_none_are_counted(shell: Shell) -> None:
    shell.write("pages.py", "from longshore import handler\n\n@handler('page')\nasync def page(url: str): return url\n")
    shell.urls(1)
    done = shell("run", "pages.py", "--urls-file", "urls.txt", "--run", "monday", "--workers", "1")
    assert "records" not in done.stderr
    assert shell("records", "monday").stdout == "Run monday has no records.\n"


CRAWL = """
from longshore import Result, handler, new_job

@handler("page")
async def page(url: str):
    return Result(url, [new_job("page", {"url": f"{url}/{n}"}) for n in (1, 2)])
"""


def test_a_crawl_ends_at_the_depth_that_is_given(shell: Shell) -> None:
    shell.write("crawl.py", CRAWL)
    shell.urls(1)
    command = ("run", "crawl.py", "--urls-file", "urls.txt", "--run", "small", "--workers", "1", "--max-depth", "2")
    assert shell(*command, "--out", "deep.jsonl").returncode == 0
    assert len(results(shell.folder / "deep.jsonl")) == 1 + 2 + 4
