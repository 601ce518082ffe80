"""Worker files as users of the task manager wrote them, run as they are: over HTTP, and on a queue in a file (E2)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.kit.task_server import TaskServer, clean_environment
from tests.waiting import wait_until

PROCESSES = """
import os
import sys
from datetime import datetime, timezone

from longshore import Worker


class VideoWorker(Worker):
    def __init__(self, api_url, worker_id, config):
        super().__init__(api_url, worker_id, config)
        self.factor = config['factor']

    def process_task(self, task):
        params = task.get('params', {})
        n = params['n']
        if n == 0:
            raise ValueError('n is zero')
        if n < 0:
            return {'success': False, 'error': 'n is negative', 'error_type': 'RangeError', 'retryable': False}
        return {
            'success': True,
            'data': {'task': task['id'], 'type': task.type, 'value': n * self.factor, 'same': task.params is params},
            'message': 'done',
            'metadata': {'processed_at': datetime.now(timezone.utc).isoformat(), 'worker_id': self.worker_id},
        }


if __name__ == '__main__':
    config = {'poll_interval': 1, 'max_runs': int(os.environ.get('TASKS', 0)), 'factor': 10}
    worker = VideoWorker(os.environ['API'], 'video-1', config)
    code = worker.run()
    print(worker.stats['processed'], worker.stats['failed'], worker.config['poll_interval'], worker.config.factor)
    sys.exit(code)
"""

OVERRIDES = """
import os
import sys

from longshore import Worker


class CarefulWorker(Worker):
    def claim_task(self):
        task = super().claim_task()
        if task:
            task['seen_by'] = self.worker_id
            print('claimed', task['params']['n'])
        return task

    def process_task(self, task):
        if task['params']['n'] == 0:
            raise ValueError('n is zero')
        return {'n': task['params']['n'], 'by': task['seen_by']}

    def complete_task(self, task_id, result):
        print('completing', result['n'])
        return super().complete_task(task_id, result)

    def fail_task(self, task_id, error):
        print('failing with ' + error)
        return super().fail_task(task_id, error)


worker = CarefulWorker(os.environ['API'], 'careful-1', {'max_runs': int(os.environ['TASKS'])})
code = worker.run()
print(worker.stats['processed'], worker.stats['failed'])
sys.exit(code)
"""

OWN_LOOP = """
import os
import sys
import time

from longshore import Worker


class LoopWorker(Worker):
    def run(self):
        if not self.health_check():
            return 1
        left = int(os.environ['TASKS'])
        while not self.should_stop and left:
            task = self.claim_task()
            if not task:
                time.sleep(self.config['poll_interval'])
                continue
            left -= 1
            try:
                result = self.process_task(task)
                self.complete_task(task['id'], result)
                self.stats['processed'] += 1
            except Exception as e:
                self.fail_task(task['id'], str(e))
                self.stats['failed'] += 1
        return 0

    def process_task(self, task):
        if task['params']['n'] == 0:
            raise ValueError('n is zero')
        return {'n': task['params']['n'], 'by': self.worker_id}


worker = LoopWorker(os.environ['API'], 'loop-1', {'poll_interval': 0.05})
code = worker.run()
print(worker.stats['processed'], worker.stats['failed'])
sys.exit(code)
"""

FROM_SETTINGS = """
import sys

from longshore import Worker


class Plain(Worker):
    def process_task(self, task):
        return {'by': self.worker_id, 'poll': self.config['poll_interval'], 'debug': self.config.debug}


sys.exit(Plain().run())
"""

OWN_CALLS = """
import json
import os
import sys
import urllib.request

from longshore import Worker


class OwnCalls(Worker):
    def post(self, path, body):
        headers = {'Authorization': 'Bearer ' + self.config['api_key'], 'Content-Type': 'application/json'}
        request = urllib.request.Request(self.api_url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b'null')

    def claim_task(self):
        self.task = self.post('/tasks/claim', {'worker_id': self.worker_id})
        return self.task

    def process_task(self, task):
        if task['params']['n'] == 0:
            raise ValueError('n is zero')
        return {'n': task['params']['n'], 'attempt': task['attempt']}

    def complete_task(self, task_id, result):
        self.post('/tasks/' + task_id + '/complete', {'lease': self.task['lease'], 'result': result})

    def fail_task(self, task_id, error):
        self.post('/tasks/' + task_id + '/fail', {'lease': self.task['lease'], 'error': error, 'retryable': False})


worker = OwnCalls(os.environ['API'], 'own-1', {'api_key': os.environ['KEY'], 'max_runs': int(os.environ['TASKS'])})
code = worker.run()
print(worker.stats['processed'], worker.stats['failed'])
sys.exit(code)
"""


@dataclass
class Place:
    """A queue, and the folder of a worker that uses it."""

    folder: Path
    server: TaskServer
    api: str
    variables: dict[str, str] = field(default_factory=dict)

    def create(self, *numbers: int) -> list[str]:
        return [self.server.create("video", n=number) for number in numbers]

    def start(self, source: str, **variables: Any) -> subprocess.Popen[str]:
        (self.folder / "worker.py").write_text(source)
        given = {
            "API": self.api,
            "LONGSHORE_LOG_FORMAT": "json",
            **self.variables,
            **{name: str(value) for name, value in variables.items()},
        }
        return subprocess.Popen(
            [sys.executable, "worker.py"],
            cwd=self.folder,
            env=clean_environment() | given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, source: str, *, code: int = 0, **variables: Any) -> tuple[list[str], list[dict[str, Any]]]:
        """Run a worker file to its end; return the lines that it printed, and those of its log."""
        process = self.start(source, **variables)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == code, err
        assert "Traceback" not in out
        return out.splitlines(), [json.loads(line) for line in err.splitlines()]


@pytest.fixture(params=["http", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: TaskServer) -> Place:
    """The same queue, over HTTP and as the file that it is."""
    if request.param == "http":
        return Place(tmp_path, server, server.url, {"LONGSHORE_API_KEY": server.key})
    return Place(tmp_path, server, server.queue)


@pytest.fixture
def over_http(tmp_path: Path, server: TaskServer) -> Place:
    return Place(tmp_path, server, server.url)


@pytest.mark.ledger("E2", "E5")
def test_a_worker_that_overrides_only_process_task(place: Place) -> None:
    good, bad, negative = place.create(3, 0, -1)
    printed, log = place.run(PROCESSES, TASKS=3)
    assert printed == ["1 2 1 10"]
    done = place.server.task(good)
    assert done["result"]["data"] == {"task": good, "type": "video", "value": 30, "same": True}
    assert (done["worker_id"], done["result"]["metadata"]["worker_id"]) == ("video-1", "video-1")
    assert place.server.task(bad)["error"]["message"] == "n is zero"
    assert place.server.task(negative)["status"] == "failed"
    assert place.server.task(negative)["error"]["exception"] == "RangeError"
    # A returned failure is logged as one (E5).
    events = [(line["message"], line.get("job_id")) for line in log]
    assert ("Failed work", negative) in events
    assert ("Completed work", negative) not in events
    assert ("Completed work", good) in events


@pytest.mark.ledger("E2")
def test_a_worker_that_overrides_claim_complete_and_fail(place: Place) -> None:
    good, bad = place.create(7, 0)
    printed, _ = place.run(OVERRIDES, TASKS=2)
    assert printed == ["claimed 7", "completing 7", "claimed 0", "failing with n is zero", "1 1"]
    assert place.server.task(good)["result"] == {"n": 7, "by": "careful-1"}
    error = place.server.task(bad)["error"]
    assert "ValueError" in error["traceback"]


def test_a_worker_with_a_whole_loop_of_its_own(place: Place) -> None:
    good, bad = place.create(7, 0)
    printed, _ = place.run(OWN_LOOP, TASKS=2)
    assert printed == ["1 1"]
    assert place.server.task(good)["result"] == {"n": 7, "by": "loop-1"}
    assert place.server.task(bad)["error"]["message"] == "n is zero"


def test_a_loop_that_ends_with_a_task_in_hand_gives_it_back(place: Place) -> None:
    (held,) = place.create(1)
    source = OWN_LOOP.replace("result = self.process_task(task)", "return 0")
    place.run(source, TASKS=1)
    task = place.server.task(held)
    assert (task["status"], task["attempts"]) == ("pending", 0)


def test_a_worker_that_makes_all_calls_itself(over_http: Place) -> None:
    good, bad = over_http.create(7, 0)
    printed, _ = over_http.run(OWN_CALLS, TASKS=2, KEY=over_http.server.key)
    assert printed == ["1 1"]
    assert over_http.server.task(good)["result"] == {"n": 7, "attempt": 1}
    assert over_http.server.task(bad)["status"] == "failed"


@pytest.mark.ledger("E3", "E16")
def test_the_settings_come_from_the_environment_and_from_a_file(over_http: Place) -> None:
    first, second = over_http.create(1, 2)
    dotenv = (
        f"TASKMANAGER_API_URL={over_http.api}\nPOLL_INTERVAL=7\nMAX_RUNS=1\nLONGSHORE_API_KEY={over_http.server.key}\n"
    )
    (over_http.folder / ".env").write_text(dotenv)
    over_http.run(FROM_SETTINGS, WORKER_ID="from-env", DEBUG="true")
    assert over_http.server.task(first)["result"] == {"by": "from-env", "poll": 7.0, "debug": True}
    over_http.run(FROM_SETTINGS, WORKER_ID="again", POLL_INTERVAL="8")
    assert over_http.server.task(second)["result"] == {"by": "again", "poll": 8.0, "debug": False}


def test_the_key_may_be_in_the_config(over_http: Place) -> None:
    (task,) = over_http.create(5)
    source = PROCESSES.replace("'factor': 10", "'factor': 10, 'api_key': os.environ['KEY']")
    over_http.run(source, TASKS=1, KEY=over_http.server.key)
    assert over_http.server.task(task)["status"] == "completed"


@pytest.mark.ledger("E2")
@pytest.mark.parametrize("key", [None, "lsk_wrong_key"])
def test_without_a_valid_key_it_ends_with_1_and_says_so(over_http: Place, key: str | None) -> None:
    variables = {} if key is None else {"LONGSHORE_API_KEY": key}
    _, log = over_http.run(PROCESSES, code=1, TASKS=1, **variables)
    assert log[-1]["message"] == "STOPPING: the health check failed"
    assert "LONGSHORE_API_KEY" in log[-2]["error"]


def test_it_ends_with_1_if_the_server_is_not_there(over_http: Place) -> None:
    over_http.api = "http://127.0.0.1:9/api"
    _, log = over_http.run(PROCESSES, code=1, LONGSHORE_API_KEY="lsk_a_b")
    assert log[-1]["message"] == "STOPPING: the health check failed"


def test_it_waits_for_a_server_that_is_killed_and_started_again(place: Place) -> None:
    source = PROCESSES.replace("'poll_interval': 1", "'poll_interval': 0.1")
    process = place.start(source, TASKS=1)
    assert process.stderr is not None
    while "No work available" not in process.stderr.readline():
        assert process.poll() is None
    place.server.kill()
    if place.api == place.server.url:
        while "does not answer" not in process.stderr.readline():
            assert process.poll() is None
    place.server.start()
    (task,) = place.create(4)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert place.server.task(task)["result"]["data"]["value"] == 40


@pytest.mark.ledger("E2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_task_finish(place: Place, number: signal.Signals) -> None:
    source = PROCESSES.replace(
        "        n = params['n']\n",
        "        n = params['n']\n        print('begun', flush=True)\n        import time; time.sleep(0.3)\n",
    )
    first, second = place.create(3, 4)
    process = place.start(source)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert [place.server.task(each)["status"] for each in (first, second)] == ["completed", "pending"]


def test_the_task_of_a_worker_that_is_killed_comes_back(place: Place) -> None:
    slow = PROCESSES.replace(
        "        n = params['n']\n", "        print('begun', flush=True)\n        import time; time.sleep(3600)\n"
    )
    (task,) = place.create(3)
    process = place.start(slow.replace("'poll_interval': 1", "'poll_interval': 1, 'lease_seconds': 1"))
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.kill()
    process.communicate()
    place.run(PROCESSES.replace("'poll_interval': 1", "'poll_interval': 0.2"), TASKS=1)
    done = place.server.task(task)
    assert (done["status"], done["attempts"]) == ("completed", 2)


def following(process: subprocess.Popen[str], phrase: str) -> None:
    """Wait until the log has this."""
    assert process.stderr is not None
    while phrase not in (line := process.stderr.readline()):
        assert line, f"it ended without '{phrase}'"


def test_it_is_listed_as_alive_and_ends_when_it_is_asked_to(over_http: Place) -> None:
    source = PROCESSES.replace("'poll_interval': 1", "'poll_interval': 0.2, 'lease_seconds': 3, 'api_key': '%KEY'")
    process = over_http.start(source.replace("%KEY", over_http.server.key))
    try:
        following(process, "No work available")

        def listed() -> list[Any]:
            workers = over_http.server.call("GET", "/v1/workers")[1]["workers"]
            return [each for each in workers if each["label"] == "video-1"]

        wait_until(lambda: len(listed()) == 1)
        order = {"label": "video-1", "incarnation": listed()[0]["incarnation"], "order": "drain"}
        assert over_http.server.call("POST", "/v1/workers/orders", order)[0] == 200
        following(process, "Asked to drain")
        process.communicate(timeout=60)
        assert process.returncode == 0
        assert listed() == []
    finally:
        process.kill()


def test_a_key_that_is_revoked_ends_it_with_1_and_the_reason(over_http: Place) -> None:
    folder, name = over_http.server.folder, over_http.folder.name
    keys = [sys.executable, "-m", "longshore", "keys"]
    add = [*keys, "add", name, "--scope", "work"]
    key = subprocess.run(add, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=True).stdout
    source = PROCESSES.replace("'poll_interval': 1", "'poll_interval': 0.2")
    process = over_http.start(source, LONGSHORE_API_KEY=key.strip())
    try:
        following(process, "No work available")
        revoke = [*keys, "revoke", name]
        subprocess.run(revoke, cwd=folder, env=clean_environment(), capture_output=True, check=True)
        following(process, "STOPPING: the queue refuses this worker")
        process.communicate(timeout=60)
        assert process.returncode == 1
    finally:
        process.kill()


BROKEN_ONCE = """    def claim_task(self):
        self.tries = getattr(self, 'tries', 0) + 1
        if self.tries == 1:
            raise OSError('no route')
"""


def test_an_error_in_a_claim_of_the_users_own_is_logged_and_tried_again(over_http: Place) -> None:
    (task,) = over_http.create(7)
    source = OWN_CALLS.replace("    def claim_task(self):\n", BROKEN_ONCE)
    source = source.replace("{'api_key'", "{'poll_interval': 0.1, 'api_key'")
    printed, log = over_http.run(source, TASKS=1, KEY=over_http.server.key)
    assert printed == ["1 0"]
    (logged,) = [line for line in log if line["message"].startswith("claim_task raised")]
    assert logged["exception"].endswith("no route")
    assert over_http.server.task(task)["status"] == "completed"


def test_a_task_that_process_task_settles_itself_is_not_settled_again(place: Place) -> None:
    (task,) = place.create(7)
    returns = "return {'n': task['params']['n'], 'by': task['seen_by']}"
    source = OVERRIDES.replace(returns, "self.complete_task(task['id'], {'n': 8})")
    printed, _ = place.run(source, TASKS=1)
    assert printed == ["claimed 7", "completing 8", "0 0"]
    assert place.server.task(task)["result"] == {"n": 8}
