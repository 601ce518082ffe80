"""The example workers in shell and in JavaScript, as real processes against a real server (E1)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.task_server import TaskServer, clean_environment
from tests.services.programs import needs
from tests.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples" / "workers"
COMMANDS = {
    "shell": {
        "add": ["sh", str(EXAMPLES / "worker.sh"), "add", "jq", "-c", "{sum: (.a + .b)}"],
        "wait": ["sh", str(EXAMPLES / "worker.sh"), "wait", "sh", "-c", "sleep $(jq .seconds); echo '{}'"],
    },
    "node": {kind: ["node", str(EXAMPLES / "worker.mjs")] for kind in ("add", "wait")},
}


class ForeignWorker:
    """One worker process, in a process group of its own, as a terminal starts it."""

    def __init__(self, command: list[str], server: TaskServer, **variables: str) -> None:
        given = {"TASKMANAGER_API_URL": server.url, "LONGSHORE_API_KEY": server.key, "WORKER_ID": "foreign"}
        self.process = subprocess.Popen(
            command,
            env=clean_environment() | given | {"POLL_INTERVAL": "1", "LEASE_SECONDS": "3"} | variables,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []

    def says(self, phrase: str) -> None:
        """Wait until it says this."""
        assert self.process.stderr is not None
        while not self.said or phrase not in self.said[-1]:
            line = self.process.stderr.readline()
            assert line, f"it ended without saying '{phrase}': {self.said}"
            self.said.append(line)
        self.said.append("")

    def press_ctrl_c(self) -> None:
        """Send what a terminal sends: to all processes of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> int:
        """Wait for its end, and return the exit code."""
        return self.process.wait(60)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


Start = Callable[..., ForeignWorker]


@pytest.fixture(params=COMMANDS)
def start(request: pytest.FixtureRequest, server: TaskServer) -> Iterator[Start]:
    """Start a worker for one type of task."""
    needs("node", "jq", "curl")
    workers: list[ForeignWorker] = []

    def started(kind: str, **variables: str) -> ForeignWorker:
        workers.append(ForeignWorker(COMMANDS[request.param][kind], server, **variables))
        return workers[-1]

    yield started
    for worker in workers:
        worker.clean_up()


@pytest.mark.ledger("E1")
def test_tasks_are_completed_or_fail_with_their_error(start: Start, server: TaskServer) -> None:
    good, bad = server.create("add", a=1, b=2), server.create("add", a={}, b=1)
    worker = start("add")
    worker.says(f"complete: task {good}")
    worker.says(f"fail: task {bad}")
    assert server.task(good)["result"] == {"sum": 3}
    assert re.search("cannot be added|must be numbers", server.task(bad)["error"]["message"])
    late = server.create("add", a=20, b=22)
    worker.says(f"complete: task {late}")
    assert server.task(late)["result"] == {"sum": 42}
    worker.press_ctrl_c()
    worker.says("stopping")
    assert worker.ended() == 0


def test_a_waiting_worker_is_shown_as_alive_and_ends_at_once(start: Start, server: TaskServer) -> None:
    name = f"waiting-{server.create('other')}"
    worker = start("add", WORKER_ID=name)
    wait_until(lambda: name in str(server.call("GET", "/v1/workers")[1]))
    worker.press_ctrl_c()
    assert worker.ended() == 0


def test_ctrl_c_lets_the_task_under_way_finish(start: Start, server: TaskServer) -> None:
    first, second = server.create("wait", seconds=1), server.create("wait", seconds=1)
    worker = start("wait")
    worker.says(f"claimed task {first}")
    worker.press_ctrl_c()
    worker.says(f"complete: task {first}")
    assert worker.ended() == 0
    assert [server.task(each)["status"] for each in (first, second)] == ["completed", "pending"]


def test_a_lease_is_kept_alive_while_the_work_takes_longer(start: Start, server: TaskServer) -> None:
    task = server.create("wait", seconds=5)
    worker = start("wait")
    worker.says(f"complete: task {task}")
    assert server.task(task)["attempts"] == 1


def test_the_task_of_a_worker_that_is_killed_comes_back(start: Start, server: TaskServer) -> None:
    task = server.create("wait", seconds=2)
    first = start("wait")
    first.says(f"claimed task {task}")
    first.process.kill()
    assert first.ended() == -signal.SIGKILL
    second = start("wait")
    second.says(f"complete: task {task}")
    done = server.task(task)
    assert (done["status"], done["attempts"]) == ("completed", 2)


def test_a_worker_is_told_that_its_lease_is_lost_and_goes_on(start: Start, server: TaskServer) -> None:
    task, after = server.create("wait", seconds=3600), server.create("wait", seconds=0)
    worker = start("wait")
    worker.says(f"claimed task {task}")
    assert server.call("POST", "/v1/jobs/cancel", {"where": {"ids": [task]}})[0] == 200
    worker.says(f"lost lease: task {task}")
    worker.says(f"complete: task {after}")
    assert server.task(task)["status"] == "cancelled"


def test_a_result_for_a_lease_that_is_lost_is_not_written(start: Start, server: TaskServer) -> None:
    task = server.create("wait", seconds=1)
    worker = start("wait", LEASE_SECONDS="60")
    worker.says(f"claimed task {task}")
    server.call("POST", "/v1/jobs/cancel", {"where": {"ids": [task]}})
    worker.says(f"lost lease: task {task}")
    assert server.task(task)["result"] is None


def test_a_server_that_is_away_is_waited_for(start: Start, server: TaskServer) -> None:
    task = server.create("wait", seconds=1)
    worker = start("wait", LEASE_SECONDS="60")
    worker.says(f"claimed task {task}")
    server.kill()
    worker.says("the server does not answer")
    server.start()
    worker.says(f"complete: task {task}")
    server.kill()
    worker.says("the server does not answer")
    server.start()
    after = server.create("wait", seconds=0)
    worker.says(f"complete: task {after}")


def test_a_wrong_key_ends_it_with_the_reason(start: Start) -> None:
    worker = start("add", LONGSHORE_API_KEY="lsk_wrong_key")
    worker.says("refuse")
    assert worker.ended() == 1


def test_the_key_is_not_in_the_list_of_processes(start: Start, server: TaskServer) -> None:
    task = server.create("wait", seconds=3600)
    worker = start("wait")
    worker.says(f"claimed task {task}")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert server.key not in listed


def ordered(server: TaskServer, name: str, order: str) -> None:
    """Give an order to a worker, as the page of the server does."""
    workers = server.call("GET", "/v1/workers")[1]["workers"]
    (incarnation,) = [each["incarnation"] for each in workers if each["label"] == name]
    body = {"label": name, "incarnation": incarnation, "order": order}
    assert server.call("POST", "/v1/workers/orders", body)[0] == 200


def test_a_worker_that_is_asked_to_drain_finishes_its_task(start: Start, server: TaskServer) -> None:
    task, after = server.create("wait", seconds=4), server.create("wait", seconds=0)
    worker = start("wait", WORKER_ID=f"drains-{task}")
    worker.says(f"claimed task {task}")
    ordered(server, f"drains-{task}", "drain")
    worker.says(f"complete: task {task}")
    assert worker.ended() == 0
    again = start("wait", WORKER_ID=f"drains-{task}")
    again.says(f"complete: task {after}")


def test_a_worker_that_is_asked_to_stop_gives_its_task_back(start: Start, server: TaskServer) -> None:
    task = server.create("wait", seconds=3600)
    worker = start("wait", WORKER_ID=f"stops-{task}")
    worker.says(f"claimed task {task}")
    ordered(server, f"stops-{task}", "stop")
    worker.says(f"release: task {task}")
    assert worker.ended() == 0
    assert (server.task(task)["status"], server.task(task)["attempts"]) == ("pending", 0)


def test_a_waiting_worker_that_is_asked_to_drain_ends(start: Start, server: TaskServer) -> None:
    name = f"idle-{server.create('other')}"
    worker = start("add", WORKER_ID=name)
    wait_until(lambda: name in str(server.call("GET", "/v1/workers")[1]))
    ordered(server, name, "drain")
    server.create("add", a=1, b=1)  # ends the wait
    assert worker.ended() == 0
