"""Processes are started and ended in the way of each system, and none is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest
from tests.waiting import wait_until
from tests.windows import CREATE_NEW_PROCESS_GROUP

from longshore.system import processes

Start = Callable[[str], subprocess.Popen[bytes]]
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
child.wait()
sys.stdin.read()  # ends only when it is ended, not because its child is
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python programs that lead a group; they end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(program: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", program]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def child_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    assert process.stdout is not None
    return psutil.Process(int(process.stdout.readline()))


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_windows_needs_a_flag_to_keep_ctrl_c_from_a_process(platform: str) -> None:
    assert processes.new_group_flags() == (0 if platform == "posix" else CREATE_NEW_PROCESS_GROUP)


def test_descriptors_are_passed_on_except_on_windows(platform: str) -> None:
    assert processes.inherited(5, 7) == ((5, 7) if platform == "posix" else ())


def test_a_command_with_a_lifeline_ends_with_its_standard_input() -> None:
    command = processes.with_lifeline([sys.executable, "-c", PARENT])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    child = child_of(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == -signal.SIGKILL
    wait_until(lambda: is_gone(child))
    assert process.stdout is not None
    process.stdout.close()


def test_on_windows_there_is_no_lifeline(windows: None) -> None:
    assert processes.with_lifeline(["driver", "--port=0"]) == ["driver", "--port=0"]


def test_a_group_is_killed_where_there_are_groups(platform: str, start: Start) -> None:
    leader = start(PARENT)
    child = child_of(leader)
    processes.kill_group(leader.pid)
    if platform == "windows":
        assert leader.poll() is None
        return
    assert leader.wait(60) == -signal.SIGKILL
    wait_until(lambda: is_gone(child))
    processes.kill_group(leader.pid)  # one that is gone is no error


def test_our_own_group_is_never_killed() -> None:
    processes.kill_group(os.getpgrp())


def test_who_leads_a_group_is_known_where_there_are_groups(platform: str, start: Start) -> None:
    leader = start(PARENT)
    assert processes.leads_group(leader.pid) is (platform == "posix")
    assert not processes.leads_group(child_of(leader).pid)


def test_a_group_is_ended_with_all_who_are_in_it(platform: str, start: Start) -> None:
    leader = start(PARENT)
    child = child_of(leader)
    processes.end_group(leader, 60)
    assert leader.returncode == (-signal.SIGTERM if platform == "posix" else -signal.SIGKILL)
    wait_until(lambda: is_gone(child))


def test_a_group_that_does_not_end_when_asked_is_killed(start: Start) -> None:
    leader = start("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); input()")
    assert leader.stdout is not None
    leader.stdout.readline()
    processes.end_group(leader, 0)
    assert leader.returncode == -signal.SIGKILL


def test_on_windows_a_process_that_has_ended_already_is_no_error(windows: None, start: Start) -> None:
    ended = start("")
    ended.wait()
    processes.end_group(ended, 0)
    assert ended.returncode == 0


def test_children_are_reaped_where_they_leave_something(platform: str, start: Start) -> None:
    assert processes.leaves_zombies() is (platform == "posix")
    child = start("input()")
    assert processes.reap(child.pid) is (platform == "posix")
    child.kill()
    wait_until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert not processes.reap(child.pid)
    if platform == "posix":
        with pytest.raises(ChildProcessError):
            processes.reap(child.pid)


def test_a_process_dies_with_its_parent_on_linux() -> None:
    # Linux itself, in a process of its own: what is asked for cannot be undone.
    program = (
        "import os, subprocess, sys\n"
        "child = 'import os; from longshore.system.processes import die_with_parent; die_with_parent(os.getppid());'\n"
        "child += 'print(os.getpid(), flush=True); import signal; signal.pause()'\n"
        "process = subprocess.Popen([sys.executable, '-c', child], stdout=subprocess.PIPE)\n"
        "print(process.stdout.readline().decode().strip(), flush=True)\n"
        "os._exit(0)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=60).stdout
    wait_until(lambda: not psutil.pid_exists(int(told)) or is_gone(psutil.Process(int(told))))


def test_a_process_whose_parent_is_dead_already_ends_at_once_on_linux() -> None:
    program = "from longshore.system.processes import die_with_parent; die_with_parent(0)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 1


def test_elsewhere_nobody_dies_with_a_parent(windows: None) -> None:
    processes.die_with_parent(0)


@pytest.mark.parametrize(("user", "root"), [(0, True), (1000, False)])
def test_only_the_user_0_is_root_and_windows_has_none(
    platform: str, monkeypatch: pytest.MonkeyPatch, user: int, root: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert processes.runs_as_root() is (root and platform == "posix")


def test_the_processors_that_may_be_used_are_counted(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3})
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert processes.usable_processors() == (2 if platform == "posix" else 8)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processes.usable_processors() == (2 if platform == "posix" else 1)
