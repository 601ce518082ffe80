"""Work written as a class, run in this process on a queue in memory, and once on a real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pydantic
import pytest
import structlog
from structlog.testing import capture_logs

from longshore import AsyncKit, Kit, Partial, Snooze, SyncKit, Task, ValidationError, Worker, new_job, open_queue
from longshore.clock import Clock, SystemClock
from longshore.errors import (
    ForeignQueueError,
    QueueError,
    QueueUnavailableError,
    ReadOnlyQueueError,
    SettingsError,
    UsageError,
)
from longshore.extensions.published_code import pin_run
from longshore.job import Job, State
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Settlement
from longshore.queue import Queue, Selection
from longshore.testing import ManualClock, MemoryQueue

T = TypeVar("T")
PATIENCE = 20.0
"""Seconds until a test that waits for a signal fails; none waits this long when all is well."""


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


class Watched(MemoryQueue):
    """A queue in memory that says when it is renewed and waited on, and breaks when told."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock or ManualClock())
        self.renewed = threading.Semaphore(0)
        self.waiting = threading.Event()
        self.wait_was_cut_short = False
        self.unavailable = 0
        """How many calls to settle and claim go unanswered."""
        self.broken: QueueError | None = None
        self.closed = False

    async def claim(self, want: Want) -> list[Lease]:
        self._answer()
        return await super().claim(want)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        self._answer()
        return await super().settle(settlements)

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        held = await super().renew(worker, lease)
        self.renewed.release()
        return held

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        self.waiting.set()
        try:
            return await super().wait(want, timeout)
        except asyncio.CancelledError:
            self.wait_was_cut_short = True
            raise

    async def close(self) -> None:
        self.closed = True

    def _answer(self) -> None:
        if self.broken:
            raise self.broken
        if self.unavailable:
            self.unavailable -= 1
            raise QueueUnavailableError("busy")


class Numbers(Worker):
    """Doubles numbers, on a queue given by the test."""

    kinds: ClassVar[tuple[str, ...] | None] = ("number",)
    backoff = 0

    def __init__(self, queue: Queue, **config: Any) -> None:
        super().__init__("memory://", "w1", config)
        self.queue = queue

    async def open_queue(self) -> Queue:
        return self.queue

    def process_task(self, task: Task) -> Any:
        return task.params["n"] * 2


@pytest.fixture(autouse=True)
def _logs_are_the_tests_own() -> Iterator[None]:
    structlog.configure()
    yield
    structlog.reset_defaults()


@pytest.fixture
def queue() -> Watched:
    return Watched()


def submit(queue: Queue, *payloads: dict[str, Any], kind: str = "number") -> None:
    now(queue.submit([new_job(kind, payload) for payload in payloads]))


def jobs(queue: Queue) -> list[Job]:
    return now(queue.jobs(Selection()))


def test_a_class_is_another_version_than_the_one_that_a_run_is_pinned_to(queue: Watched) -> None:
    now(queue.submit([new_job("number", {"n": n}, run=run) for n, run in enumerate(("pinned", "free"))]))
    now(pin_run(queue, "pinned", "a" * 64))
    assert Numbers(queue, max_runs=1).run() == 0
    assert {job.run: job.state for job in jobs(queue)} == {"pinned": State.PENDING, "free": State.COMPLETED}


def test_tasks_are_claimed_processed_and_completed(queue: Watched) -> None:
    submit(queue, {"n": 1}, {"n": 2})
    worker = Numbers(queue, max_runs=2)
    assert worker.run() == 0
    assert [(job.state, job.result, job.worker) for job in jobs(queue)] == [
        (State.COMPLETED, 2, "w1"),
        (State.COMPLETED, 4, "w1"),
    ]
    stats = worker.stats
    assert (stats.claimed, stats.completed, stats.failed, stats.success_rate) == (2, 2, 0, 1.0)
    assert stats.uptime >= stats.average_processing_time >= 0
    assert queue.closed


def test_stats_before_anything_happened(queue: Watched) -> None:
    stats = Numbers(queue).stats
    assert (stats.claimed, stats.success_rate, stats.average_processing_time) == (0, 0.0, 0.0)


def test_a_task_has_id_type_and_params(queue: Watched) -> None:
    submit(queue, {"n": 1})
    worker = Numbers(queue)
    try:
        assert worker.claim_task() == Task("1", "number", {"n": 1})
        assert worker.claim_task() is None
    finally:
        worker.close()


def test_only_tasks_of_its_kinds_are_claimed(queue: Watched) -> None:
    submit(queue, {"n": 1}, kind="other")
    worker = Numbers(queue)
    try:
        assert worker.claim_task() is None
    finally:
        worker.close()


def test_without_kinds_it_takes_all(queue: Watched) -> None:
    class Everything(Numbers):
        kinds = None

    submit(queue, {"n": 1}, kind="a")
    submit(queue, {"n": 2}, kind="b")
    assert Everything(queue, max_runs=2).run() == 0
    assert {job.state for job in jobs(queue)} == {State.COMPLETED}


def test_an_error_is_retried_up_to_the_declared_limit(queue: Watched) -> None:
    class Broken(Numbers):
        retries = 1

        def process_task(self, task: Task) -> Any:
            raise KeyError("gone")

    submit(queue, {"n": 1})
    worker = Broken(queue, max_runs=2)
    with capture_logs() as said:
        assert worker.run() == 0
    assert said[-1]["event"].startswith("Final statistics: 0 completed, 1 failed, 1 retried, runtime 0:00:0")
    failures = [entry for entry in said if entry["event"] == "Failed work"]
    assert {entry["error"] for entry in failures} == {"KeyError: 'gone'"}
    assert all("test_worker_class.py:" in entry["at"] for entry in failures)
    (job,) = jobs(queue)
    assert (job.state, job.attempts) == (State.FAILED, 2)
    assert job.failure is not None
    assert "KeyError" in job.failure.traceback
    assert (worker.stats.failed, worker.stats.success_rate) == (2, 0.0)


def test_a_validation_error_is_not_retried(queue: Watched) -> None:
    class Refusing(Numbers):
        def process_task(self, task: Task) -> Any:
            raise ValidationError("n must be even")

    submit(queue, {"n": 1})
    assert Refusing(queue, max_runs=1).run() == 0
    assert jobs(queue)[0].state is State.FAILED


@pytest.mark.parametrize("use", [lambda kit: kit.http, lambda kit: kit.emit({"n": 1})])
def test_a_tool_that_run_does_not_have_is_missed_for_good_rather_than_a_record_lost(
    queue: Watched, use: Callable[[Any], Any]
) -> None:
    class Fetches(Numbers):
        def process_task(self, task: Task) -> Any:
            return use(task.kit)

    submit(queue, {"n": 1})
    assert Fetches(queue, max_runs=1).run() == 0
    [job] = jobs(queue)
    assert job.state is State.FAILED
    assert job.failure is not None
    assert "outside a worker (job 1). `longshore work FILE` has one." in job.failure.message


def test_a_task_has_the_kit_that_fits_its_method(queue: Watched) -> None:
    kits: list[Kit] = []

    class Plain(Numbers):
        def process_task(self, task: Task) -> None:
            kits.append(task.kit)

    class Async(Numbers):
        async def process_task(self, task: Task) -> None:
            kits.append(task.kit)

    submit(queue, {"n": 1}, {"n": 2})
    assert [Plain(queue, max_runs=1).run(), Async(queue, max_runs=1).run()] == [0, 0]
    assert [type(kit) for kit in kits] == [SyncKit, AsyncKit]


def test_a_task_that_was_only_claimed_says_that_it_has_no_kit() -> None:
    with pytest.raises(UsageError, match="Task 7 has no kit"):
        _ = Task("7", "number", {"n": 1}).kit


def test_parameters_are_checked_against_the_declared_model(queue: Watched) -> None:
    class Params(pydantic.BaseModel):
        n: int
        factor: int = 10

    class Declared(Numbers):
        params = Params

        def process_task(self, task: Task) -> Any:
            return task.params.n * task.params.factor

    submit(queue, {"n": "3"}, {"n": "x", "factor": "y"})
    assert Declared(queue, max_runs=2).run() == 0
    good, bad = jobs(queue)
    assert good.result == 30
    assert bad.state is State.FAILED
    assert bad.failure is not None
    assert bad.failure.error_type == "validation"
    assert "n: " in bad.failure.message
    assert "factor: " in bad.failure.message


def test_what_it_returns_is_read_as_for_a_handler(queue: Watched) -> None:
    answers = [{"success": False, "error": "no", "retryable": False}, Snooze(60), Partial(results=[1], errors=["e"])]

    class Answers(Numbers):
        def process_task(self, task: Task) -> Any:
            return answers[task.params["n"]]

    submit(queue, {"n": 0}, {"n": 1}, {"n": 2})
    worker = Answers(queue, max_runs=3)
    assert worker.run() == 0
    assert [job.state for job in jobs(queue)] == [State.FAILED, State.PENDING, State.COMPLETED]
    assert jobs(queue)[1].attempts == 0
    assert (worker.stats.completed, worker.stats.failed) == (1, 1)


def test_process_task_may_be_async_and_keeps_its_loop(queue: Watched) -> None:
    loops = []

    class Async(Numbers):
        async def process_task(self, task: Task) -> Any:
            loops.append(asyncio.get_running_loop())
            return task.params["n"]

    submit(queue, {"n": 1}, {"n": 2})
    assert Async(queue, max_runs=2).run() == 0
    assert [job.result for job in jobs(queue)] == [1, 2]
    assert loops[0] is loops[1]


def test_an_async_task_is_ended_at_its_timeout(queue: Watched) -> None:
    class Hanging(Numbers):
        timeout = 0.01
        retries = 0

        async def process_task(self, task: Task) -> Any:
            await asyncio.Event().wait()

    submit(queue, {"n": 1})
    assert Hanging(queue, max_runs=1).run() == 0
    (job,) = jobs(queue)
    assert job.failure is not None
    assert job.failure.error_type == "timeout"


def test_a_failed_health_check_ends_with_1(queue: Watched) -> None:
    class Ill(Numbers):
        def health_check(self) -> bool:
            return False

    submit(queue, {"n": 1})
    assert Ill(queue).run() == 1
    assert jobs(queue)[0].state is State.PENDING


def test_a_health_check_that_raises_ends_with_1(queue: Watched) -> None:
    class Ill(Numbers):
        def health_check(self) -> bool:
            raise OSError("no key")

    with capture_logs() as lines:
        assert Ill(queue).run() == 1
    assert "The health check raised an error" in [line["event"] for line in lines]


def test_a_queue_that_cannot_be_opened_ends_with_1() -> None:
    with capture_logs() as lines:
        assert Worker("nosuch://queue").run() == 1
    assert any("nosuch://" in line.get("error", "") for line in lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_task_finish_and_ends_with_0(queue: Watched, number: signal.Signals) -> None:
    class Signalled(Numbers):
        def process_task(self, task: Task) -> Any:
            signal.raise_signal(number)
            return self.should_stop

    before = signal.getsignal(number)
    submit(queue, {"n": 1}, {"n": 2})
    assert Signalled(queue).run() == 0
    assert [(job.state, job.result) for job in jobs(queue)] == [(State.COMPLETED, True), (State.PENDING, None)]
    assert signal.getsignal(number) is before


def test_a_second_signal_gives_the_task_back(queue: Watched) -> None:
    class Impatient(Numbers):
        def process_task(self, task: Task) -> Any:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    submit(queue, {"n": 1})
    with pytest.raises(KeyboardInterrupt):
        Impatient(queue).run()
    (job,) = jobs(queue)
    assert (job.state, job.attempts) == (State.PENDING, 0)


def test_a_signal_ends_the_wait_for_work() -> None:
    queue = Watched(SystemClock())

    def interrupt() -> None:
        queue.waiting.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=interrupt)
    sender.start()
    assert Numbers(queue, poll_interval=PATIENCE).run() == 0
    sender.join()
    assert queue.wait_was_cut_short


def test_should_stop_ends_the_wait_from_another_thread() -> None:
    queue = Watched(SystemClock())
    worker = Numbers(queue, poll_interval=PATIENCE)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(worker.run()))
    thread.start()
    assert queue.waiting.wait(PATIENCE)
    worker.should_stop = True
    thread.join()
    assert codes == [0]
    assert queue.wait_was_cut_short


def test_leases_are_renewed_while_the_task_runs(queue: Watched) -> None:
    class Long(Numbers):
        def process_task(self, task: Task) -> Any:
            return [queue.renewed.acquire(timeout=PATIENCE) for _ in range(2)]

    submit(queue, {"n": 1})
    assert Long(queue, max_runs=1, lease_seconds=1).run() == 0
    assert jobs(queue)[0].result == [True, True]


def test_a_lost_lease_is_noticed_and_what_was_done_is_discarded(queue: Watched) -> None:
    noticed = []

    class Cancelled(Numbers):
        def process_task(self, task: Task) -> Any:
            noticed.append(self.lost_lease(task))
            now(queue.cancel(Selection()))
            while queue.renewed.acquire(blocking=False):
                pass
            # When a renewal begins, the one before it has been read.
            assert all(queue.renewed.acquire(timeout=PATIENCE) for _ in range(2))
            noticed.append(self.lost_lease(task))
            return "too late"

    submit(queue, {"n": 1})
    worker = Cancelled(queue, max_runs=1, lease_seconds=1)
    with capture_logs() as lines:
        assert worker.run() == 0
    assert noticed == [False, True]
    assert jobs(queue)[0].state is State.CANCELLED
    assert (worker.stats.claimed, worker.stats.completed) == (1, 0)
    assert sum(line["event"].startswith("lost lease") for line in lines) == 2


def test_the_tasks_of_a_dead_worker_are_brought_back() -> None:
    clock = ManualClock()
    queue = Watched(clock)
    submit(queue, {"n": 1})
    dead = Want(worker=WorkerId.new("dead"), lease=timedelta(seconds=5))
    assert now(queue.claim(dead))
    clock.advance(6)
    worker = Numbers(queue)
    try:
        task = worker.claim_task()
        assert task is not None
        assert worker.complete_task(task, "again")
    finally:
        worker.close()
    (job,) = jobs(queue)
    assert (job.state, job.attempts) == (State.COMPLETED, 2)


def test_settling_is_tried_again_while_the_queue_does_not_answer(
    queue: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.handlers.lease_keeper.FIRST_PAUSE", 0.001)

    class Unlucky(Numbers):
        def process_task(self, task: Task) -> Any:
            queue.unavailable = 2
            return 1

    submit(queue, {"n": 1})
    assert Unlucky(queue, max_runs=1).run() == 0
    assert jobs(queue)[0].state is State.COMPLETED


def test_claiming_is_tried_again_while_the_queue_does_not_answer(queue: Watched) -> None:
    submit(queue, {"n": 1})
    queue.unavailable = 2
    assert Numbers(queue, max_runs=1, poll_interval=0.01).run() == 0
    assert jobs(queue)[0].state is State.COMPLETED


def test_a_queue_that_is_lost_for_good_ends_with_1(queue: Watched) -> None:
    queue.broken = ForeignQueueError("this is no queue")
    with capture_logs() as lines:
        assert Numbers(queue).run() == 1
    assert any("this is no queue" in line.get("error", "") for line in lines)


def test_trouble_that_may_pass_is_waited_for_as_long_as_a_lease_lasts(queue: Watched) -> None:
    queue.broken = ReadOnlyQueueError("the queue cannot be written to")
    with capture_logs() as lines:
        assert Numbers(queue, poll_interval=0.05, lease_seconds=1).run() == 1
    assert len([line for line in lines if "cannot be written" in line.get("error", "")]) > 2


def test_settling_a_task_twice_is_refused(queue: Watched) -> None:
    submit(queue, {"n": 1})
    worker = Numbers(queue)
    try:
        task = worker.claim_task()
        assert task is not None
        assert worker.fail_task(task, "by hand")
        with pytest.raises(UsageError, match="not held"):
            worker.complete_task(task, None)
    finally:
        worker.close()
    (job,) = jobs(queue)
    assert job.failure is not None
    assert (job.failure.message, job.failure.error_type) == ("by hand", "processing")


def test_a_class_without_process_task_says_so(queue: Watched) -> None:
    class Empty(Numbers):
        process_task = Worker.process_task
        retries = 0

    submit(queue, {"n": 1})
    Empty(queue, max_runs=1).run()
    (job,) = jobs(queue)
    assert job.failure is not None
    assert "Empty has no process_task" in job.failure.message


@pytest.mark.parametrize(
    "config", [{"poll_interval": 0}, {"poll_interval": "10"}, {"max_runs": -1}, {"lease_seconds": 0.5}]
)
def test_a_wrong_setting_is_named(config: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(config))):
        Worker("memory://", config=config)


def test_config_may_hold_what_is_the_users_own() -> None:
    assert Worker("memory://", config={"youtube_api_key": "k"}).config["youtube_api_key"] == "k"


def test_a_worker_id_is_made_where_none_is_chosen() -> None:
    assert Worker("memory://").worker_id != Worker("memory://").worker_id
    assert Worker("memory://", "chosen").worker_id == "chosen"


def test_a_script_has_readable_logs_with_secrets_masked(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom longshore import Worker\nsys.exit(Worker('nosuch://me:hunter2@host/', 'w7').run())\n"
    )
    environment = os.environ | {"LONGSHORE_LOG_FORMAT": "json"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines[0]["message"] == "Worker w7 initialized"
    assert {line["worker_id"] for line in lines} == {"w7"}
    assert "hunter2" not in done.stderr


def test_it_works_on_a_real_queue(tmp_path: Path) -> None:
    class Real(Worker):
        kinds = "number"

        def process_task(self, task: Task) -> Any:
            return task.params["n"] * 2

    url = f"sqlite:///{tmp_path}/queue.db"

    async def scene() -> None:
        queue = await open_queue(url)
        await queue.submit([new_job("number", {"n": n}) for n in range(3)])
        await queue.close()

    async def results() -> list[Any]:
        queue = await open_queue(url)
        found = await queue.jobs(Selection())
        await queue.close()
        return [job.result for job in found]

    now(scene())
    assert Real(url, config={"max_runs": 3}).run() == 0
    assert now(results()) == [0, 2, 4]
