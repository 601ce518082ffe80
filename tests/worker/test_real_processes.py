"""Workers as real processes on a real SQLite queue: signals, kill -9, and handlers that will not end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import Any

from longshore.job import State, new_job
from longshore.media import open_queue
from longshore.runs.control.growth_limits import GrowthLimits, left_out, set_limits
from longshore.runs.records.run_records import decided_records


def messages(entries: list[dict[str, Any]]) -> str:
    return "\n".join(entry["message"] for entry in entries)


def test_handlers_that_will_not_end_are_ended_at_their_timeout_and_leave_no_process(site: Any) -> None:
    """E6: one sleeps, one is stuck in C code, one started processes that try to get away."""
    site.handlers(
        """
        import re, subprocess, time

        @handler("sleeps", timeout=1, retries=0)
        def sleeps(job):
            time.sleep(3600)

        @handler("stuck", timeout=1, retries=0)
        def stuck(job):
            re.match(r"(a+)+$", "a" * 64 + "b")

        @handler("spawns", timeout=1, retries=0)
        def spawns(job):
            subprocess.Popen(["sleep", "3601"], start_new_session=True)
            subprocess.run(["sh", "-c", "sleep 3602 &"], start_new_session=True)  # its parent is gone as well
            subprocess.run(["sh", "-c", "sleep 3603 & wait"])

        @handler("fine", timeout=30)
        def fine(job):
            return {"ok": True}
        """
    )
    site.submit(*(new_job(kind, {}) for kind in ("sleeps", "stuck", "spawns", "fine")))
    worker = site.start(concurrency=3)
    assert site.ended(worker) == 0
    jobs = {job.kind: job for job in site.jobs()}
    assert jobs["fine"].result == {"ok": True}
    for kind in ("sleeps", "stuck", "spawns"):
        assert jobs[kind].state is State.FAILED
        assert jobs[kind].failure.error_type == "timeout"
        assert 1 <= jobs[kind].seconds < 10
    assert site.processes() == []


def test_a_worker_killed_with_9_takes_its_children_and_grandchildren_with_it(site: Any) -> None:
    site.handlers(
        """
        import pathlib, re, subprocess

        @handler("stuck")
        def stuck(job):
            subprocess.Popen(["sleep", "3600"], start_new_session=True)
            subprocess.Popen(["sleep", "3601"])
            subprocess.run(["sh", "-c", "sleep 3602 &"], start_new_session=True)
            pathlib.Path("begun").write_text("yes")
            re.match(r"(a+)+$", "a" * 64 + "b")
        """
    )
    site.submit(new_job("stuck", {}))
    worker = site.start()
    site.wait_for_file("begun")
    assert len(site.processes()) >= 6  # the worker, its guardian and child, and three that the handler started
    worker.kill()
    worker.wait()
    site.wait_for(lambda: not site.processes())


def test_the_first_signal_drains(site: Any) -> None:
    site.handlers(
        """
        import asyncio, pathlib

        @handler("waits")
        async def waits(job):
            pathlib.Path("begun").write_text("yes")
            while not pathlib.Path("go").exists():
                await asyncio.sleep(0.01)
            return "done"
        """
    )
    site.submit(*(new_job("waits", {"number": number}) for number in range(6)))
    worker = site.start(concurrency=2, until_done=False)
    site.wait_for_file("begun")
    worker.send_signal(signal.SIGTERM)
    site.wait_for(lambda: "STOPPING: SIGTERM" in messages(site.said()))
    assert worker.poll() is None
    (site.folder / "go").write_text("now")
    assert site.ended(worker) == 0
    states = [job.state for job in site.jobs()]
    assert states.count(State.COMPLETED) == 2
    assert states.count(State.PENDING) == 4
    assert "Final statistics: 2 completed, 0 failed" in messages(site.said())
    assert [entry for entry in site.said() if entry.get("worker_id") != "tester"] == []


def test_the_second_signal_gives_everything_back_and_leaves_at_once(site: Any) -> None:
    site.handlers(
        """
        import asyncio, pathlib, time

        @handler("sync")
        def sync(job):
            pathlib.Path("sync_begun").write_text("yes")
            time.sleep(3600)

        @handler("async")
        async def async_(job):
            pathlib.Path("async_begun").write_text("yes")
            await asyncio.sleep(3600)
        """
    )
    site.submit(new_job("sync", {}), new_job("async", {}))
    worker = site.start(concurrency=2)
    site.wait_for_file("sync_begun")
    site.wait_for_file("async_begun")
    worker.send_signal(signal.SIGINT)
    site.wait_for(lambda: "STOPPING: SIGINT" in messages(site.said()))
    worker.send_signal(signal.SIGINT)
    assert site.ended(worker) == 130
    assert [(job.state, job.attempts) for job in site.jobs()] == [(State.PENDING, 0)] * 2
    assert site.processes() == []


def test_two_signals_end_even_a_worker_whose_loop_is_blocked(site: Any) -> None:
    site.handlers(
        """
        import pathlib, time

        @handler("blocks", timeout=300)
        async def blocks(job):
            pathlib.Path("begun").write_text("yes")
            time.sleep(3600)
        """
    )
    site.submit(new_job("blocks", {}))
    worker = site.start()
    site.wait_for_file("begun")
    worker.send_signal(signal.SIGINT)
    worker.send_signal(signal.SIGTERM)
    assert site.ended(worker) == 130
    assert [(job.state, job.attempts) for job in site.jobs()] == [(State.PENDING, 0)]


def test_renewal_is_not_starved_by_a_handler_that_blocks_the_loop(site: Any) -> None:
    site.handlers(
        """
        import pathlib, time

        @handler("greedy", timeout=60)
        async def greedy(job):
            pathlib.Path("begun").write_text("yes")
            until = time.monotonic() + 3
            while time.monotonic() < until:
                pass
            return "kept my lease"
        """
    )
    site.submit(new_job("greedy", {}))
    worker = site.start(lease=1.0)
    site.wait_for_file("begun")
    rival = site.start(lease=1.0, label="rival")  # would bring the job back, and take it, if the lease lapsed
    assert site.ended(worker) == 0
    assert site.ended(rival) == 0
    (job,) = site.jobs()
    assert (job.state, job.result, job.epoch, job.worker) == (State.COMPLETED, "kept my lease", 1, "tester")


def test_a_handler_that_blocks_the_loop_past_its_timeout_is_named_and_the_worker_leaves_with_3(site: Any) -> None:
    site.handlers(
        """
        import asyncio, pathlib, time

        @handler("blocks", timeout=0.5, retries=0)
        async def blocks(job):
            while not pathlib.Path("other_begun").exists():
                await asyncio.sleep(0.01)
            time.sleep(3600)

        @handler("innocent")
        async def innocent(job):
            pathlib.Path("other_begun").write_text("yes")
            await asyncio.sleep(3600)
        """
    )
    site.submit(new_job("innocent", {}), new_job("blocks", {}))
    worker = site.start(concurrency=2)
    assert site.ended(worker) == 3
    innocent, blocks = site.jobs()
    assert (innocent.state, innocent.attempts) == (State.PENDING, 0)
    assert (blocks.state, blocks.failure.error_type) == (State.FAILED, "timeout")
    assert "blocks the event loop" in blocks.failure.message
    assert "plain `def`" in blocks.failure.message
    site.wait_for(lambda: not site.processes())


def test_a_worker_that_cannot_even_run_its_threads_is_killed_by_its_guardian(site: Any) -> None:
    site.handlers(
        """
        import pathlib, re

        @handler("stuck", timeout=0.5)
        async def stuck(job):
            pathlib.Path("begun").write_text("yes")
            re.match(r"(a+)+$", "a" * 64 + "b")
        """
    )
    site.submit(new_job("stuck", {}))
    worker = site.start(lease=1.0)
    assert site.ended(worker) == -signal.SIGKILL
    assert "stuck in C code" in site.logs[0].read_text()
    site.wait_for(lambda: not site.processes())


def test_what_a_killed_worker_held_is_brought_back_and_done_by_another(site: Any) -> None:
    site.handlers(
        """
        import asyncio, pathlib

        @handler("waits", timeout=60)
        async def waits(job):
            if not pathlib.Path("go").exists():
                pathlib.Path("begun").write_text("yes")
                await asyncio.sleep(3600)
            return "done"
        """
    )
    site.submit(new_job("waits", {}))
    worker = site.start(lease=1.0)
    site.wait_for_file("begun")
    worker.kill()
    (site.folder / "go").write_text("now")
    second = site.start(lease=1.0, label="second")
    assert site.ended(second) == 0
    (job,) = site.jobs()
    assert (job.state, job.worker, job.attempts) == (State.COMPLETED, "second", 2)
    assert "Brought back jobs of workers that went silent" in messages(site.said(1))


def test_every_line_of_a_handler_reaches_the_log_with_its_worker_and_job(site: Any) -> None:
    """E9"""
    site.handlers(
        """
        import logging, sys

        @handler("talks")
        def talks(job, kit):
            kit.log.info("from the kit", password="hunter2", rows=12)
            logging.getLogger("library").warning("from a library")
            print("from print")
            print("from stderr", file=sys.stderr)
            print("no newline", end="")

        @handler("talks_async")
        async def talks_async(job, kit):
            kit.log.info("from the async kit")
            logging.getLogger("library").warning("from a library, async")
            print("from print,", "async")
            print("from stderr, async: token=hunter2", file=sys.stderr)
            print("no newline, async", end="")
        """
    )
    site.submit(new_job("talks", {}), new_job("talks_async", {}))
    assert site.ended(site.start()) == 0
    entries = {entry["message"]: entry for entry in site.said()}
    by_kind = {job.kind: job.id for job in site.jobs()}
    for text in ("from the kit", "from a library", "from print", "from stderr", "no newline"):
        assert entries[text]["job_id"] == by_kind["talks"], text
    printed = ("from print, async", "from stderr, async: token=***", "no newline, async")
    for text in ("from the async kit", "from a library, async", *printed):
        assert entries[text]["job_id"] == by_kind["talks_async"], text
    assert [entry for entry in site.said() if entry.get("worker_id") != "tester"] == []
    assert entries["from the kit"]["password"] == "***"
    assert (entries["from the kit"]["function"], entries["from the kit"]["rows"]) == ("talks", 12)
    assert entries["from a library"]["level"] == "warning"


def test_a_thread_that_a_handler_left_behind_does_not_keep_the_process(tmp_path: Any) -> None:
    (tmp_path / "lazy.py").write_text(
        "import asyncio, time\n"
        "from longshore import handler\n\n"
        "@handler('lazy', timeout=1, retries=0)\n"
        "async def lazy(job):\n"
        "    await asyncio.to_thread(time.sleep, 3600)\n"
    )
    command = [sys.executable, "-m", "longshore"]
    (tmp_path / "jobs.jsonl").write_text('{"n": 1}\n')
    submit = [*command, "submit", "lazy", "--jobs-file", "jobs.jsonl", "--run", "r"]
    subprocess.run(submit, cwd=tmp_path, check=True, capture_output=True)
    work = [*command, "work", "lazy.py", "--run", "r", "--until-done"]
    done = subprocess.run(work, cwd=tmp_path, check=False, capture_output=True, timeout=120)
    assert done.returncode == 0
    assert b"STOPPING: run r is finished" in done.stderr


def kept_records(site: Any) -> list[str]:
    """Return the key of the job of every record that counts."""

    async def go() -> list[str]:
        queue = await open_queue(site.url)
        try:
            survey = await decided_records(queue, site.folder / ".longshore" / "records")
        finally:
            await queue.close()
        return [record.key for record in survey.records()]

    return asyncio.run(go())


def test_the_watchdog_writes_the_records_of_completed_jobs_before_it_settles_them(site: Any) -> None:
    site.handlers(
        """
        import time

        @handler("emits")
        async def emits(job, kit):
            kit.emit({"number": job.payload["number"]})

        @handler("blocks", timeout=0.5, retries=0)
        async def blocks(job):
            time.sleep(3600)
        """
    )
    site.submit(*(new_job("emits", {"number": number}) for number in range(10)), new_job("blocks", {}))
    assert site.ended(site.start(concurrency=8)) == 3
    completed = [job.key for job in site.jobs() if job.state is State.COMPLETED]
    assert len(completed) == 10
    assert sorted(kept_records(site)) == sorted(completed)


def test_the_watchdog_keeps_to_the_limits_of_a_run(site: Any) -> None:
    site.handlers(
        """
        import time
        from longshore import Result, new_job

        @handler("grows")
        async def grows(job):
            number = job.payload["number"]
            return Result(number, jobs=[new_job("leaf", {"parent": number, "number": each}) for each in range(50)])

        @handler("blocks", timeout=0.5, retries=0)
        async def blocks(job):
            time.sleep(3600)
        """
    )

    async def limited() -> None:
        queue = await open_queue(site.url)
        await set_limits(queue, "r", GrowthLimits(max_jobs=10))
        await queue.close()

    async def dropped() -> int:
        queue = await open_queue(site.url)
        try:
            return (await left_out(queue, "r")).too_many
        finally:
            await queue.close()

    asyncio.run(limited())
    growing = [new_job("grows", {"number": number}, run="r") for number in range(5)]
    site.submit(*growing, new_job("blocks", {}, run="r"))
    assert site.ended(site.start(concurrency=8)) == 3
    jobs = site.jobs()
    assert sum(job.kind == "grows" and job.state is State.COMPLETED for job in jobs) == 5
    assert len(jobs) == 10
    assert asyncio.run(dropped()) == 5 * 50 - 4
