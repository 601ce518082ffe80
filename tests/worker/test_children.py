"""Plain handlers, in child processes that are used again and whose death is an outcome."""

from __future__ import annotations

import hashlib
import textwrap
from pathlib import Path
from typing import Any

import pytest

from longshore.handlers.envelope import envelope
from longshore.handlers.handler import Handler
from longshore.handlers.load import load_handlers
from longshore.job import State, new_job
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plain_handlers.py"
    path.write_text(
        textwrap.dedent(
            """
            import os, signal, sys
            from longshore.handlers.handler import handler
            from longshore.handlers.result import Result
            from longshore.job import new_job

            @handler("pid")
            def pid(job):
                return os.getpid()

            @handler("killed", retries=0)
            def killed(job):
                os.kill(os.getpid(), signal.SIGKILL)

            @handler("quits", retries=0)
            def quits(job):
                os._exit(3)

            @handler("exits", retries=0)
            def exits(job):
                sys.exit("good bye")

            @handler("raises", retries=0)
            def raises(job):
                raise ValueError("no such luck")

            @handler("large")
            def large(job):
                return "x" * 5_000_000

            @handler("parent")
            def parent(job, kit):
                return Result({"n": 1}, [new_job("pid", {"from": job.id})])

            @handler("reads")
            def reads(job):
                return sys.stdin.read()
            """
        )
    )
    return path


async def test_one_child_does_many_jobs(memory: MemoryQueue, run_worker: Any, some_jobs: Any, file: Path) -> None:
    await memory.submit(some_jobs("pid", 50))
    await run_worker(memory, handler_file=file, concurrency=2)
    assert 1 <= len({job.result for job in await memory.jobs(Selection())}) <= 2


async def test_the_death_of_a_child_is_an_outcome_that_says_how_it_died(
    memory: MemoryQueue, run_worker: Any, file: Path
) -> None:
    kinds = ["killed", "quits", "exits", "raises", "pid"]
    await memory.submit([new_job(kind, {}) for kind in kinds])
    report = await run_worker(memory, handler_file=file, concurrency=1)
    jobs = {job.kind: job for job in await memory.jobs(Selection())}
    failures: dict[str, Any] = {kind: jobs[kind].failure for kind in kinds}
    assert failures["killed"].error_type == "crash"
    assert failures["killed"].message == "the process died: signal 9 (SIGKILL)"
    assert failures["quits"].message == "the process died: exit code 3"
    assert failures["exits"].message == "the handler called sys.exit('good bye')"
    assert failures["raises"].exception == "ValueError"
    assert "no such luck" in failures["raises"].traceback
    assert jobs["pid"].state is State.COMPLETED
    assert (report.completed, report.failed, report.exit_code) == (1, 4, 0)


async def test_large_results_and_follow_on_jobs_come_through(memory: MemoryQueue, run_worker: Any, file: Path) -> None:
    await memory.submit([new_job("large", {}), new_job("parent", {}), new_job("reads", {})])
    await run_worker(memory, handler_file=file)
    jobs = {job.kind: job for job in await memory.jobs(Selection())}
    assert len(jobs["large"].result) == 5_000_000
    assert jobs["parent"].result == {"n": 1}
    assert jobs["pid"].payload == {"from": jobs["parent"].id}
    assert jobs["reads"].result == ""  # nothing to read, and above all not the worker's pipe


@pytest.fixture
def loaded_then_broken(file: Path) -> dict[str, Handler]:
    handlers = load_handlers(file)
    file.write_text("raise RuntimeError('changed under our feet')")
    return handlers


async def test_children_run_the_version_of_the_file_that_the_worker_started_with(
    memory: MemoryQueue, run_worker: Any, file: Path, loaded_then_broken: dict[str, Handler]
) -> None:
    await memory.submit([new_job("pid", {}, max_attempts=1), new_job("raises", {}, max_attempts=1)])
    report = await run_worker(memory, *loaded_then_broken.values(), handler_file=file)
    plain, raising = await memory.jobs(Selection())
    assert (plain.state, report.exit_code) == (State.COMPLETED, 0)
    assert raising.failure is not None
    assert 'raise ValueError("no such luck")' in raising.failure.traceback, "the lines shown are those that ran"


@pytest.fixture
def neighbour_then_broken(file: Path) -> dict[str, Handler]:
    neighbour = file.with_name("neighbour_of_plain_handlers.py")
    neighbour.write_text("")
    file.write_text(f"import {neighbour.stem}\n{file.read_text()}")
    handlers = load_handlers(file)
    neighbour.write_text("raise RuntimeError('changed under our feet')")
    return handlers


async def test_a_child_that_cannot_start_costs_no_job_an_attempt_and_stops_the_worker(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any, file: Path, neighbour_then_broken: dict[str, Handler]
) -> None:
    await memory.submit(some_jobs("pid", 20, max_attempts=1))
    report = await run_worker(memory, *neighbour_then_broken.values(), handler_file=file)
    jobs = await memory.jobs(Selection())
    assert {(job.state, job.attempts) for job in jobs} == {(State.PENDING, 0)}
    assert (report.exit_code, report.failed) == (1, 0)
    assert report.reason.startswith("no child process can be started for plain handlers")
    assert "changed under our feet" in report.reason


async def test_a_process_that_the_system_refuses_to_start_costs_no_job_an_attempt(
    memory: MemoryQueue, run_worker: Any, some_jobs: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_given: Any, **_named: Any) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    handlers = load_handlers(file)
    monkeypatch.setattr("asyncio.create_subprocess_exec", refused)
    await memory.submit(some_jobs("pid", 3, max_attempts=1))
    report = await run_worker(memory, *handlers.values(), handler_file=file)
    assert {job.state for job in await memory.jobs(Selection())} == {State.PENDING}
    assert report.exit_code == 1
    assert "Resource temporarily unavailable" in report.reason


@pytest.mark.parametrize("kind", ["pid", "swift"], ids=["in a child", "in the worker"])
async def test_results_and_failures_say_which_version_of_the_file_made_them(
    memory: MemoryQueue, run_worker: Any, file: Path, kind: str, version: str
) -> None:
    await memory.submit([new_job(kind, {}), new_job("raises", {})])
    await run_worker(memory, handler_file=file)
    done, failed = await memory.jobs(Selection())
    assert done.handler_version == version
    assert failed.failure is not None
    assert failed.failure.handler_version == version
    assert envelope(done)["metadata"]["handler_version"] == version
    assert envelope(failed)["metadata"]["handler_version"] == version


@pytest.fixture
def version(file: Path) -> str:
    """That of the file, with an async handler more."""
    file.write_text(file.read_text() + '\n@handler("swift")\nasync def swift(job):\n    return 1\n')
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
