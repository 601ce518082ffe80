"""Submitting a file: all of it or none of it, again and again without harm."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from longshore.clock import ManualClock
from longshore.errors import InputFileError, QueueFullError, UsageError
from longshore.extensions.submissions import being_submitted
from longshore.job import NewJob
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection, Submitted, totals
from longshore.runs.sources import Generated
from longshore.runs.submit.batches import BATCH
from longshore.runs.submit.input_files import InputEntry, InputFile, InputFormat
from longshore.runs.submit.submission import (
    Submission,
    SubmissionPlan,
    check_file,
    check_run_id,
    new_run_id,
    submit_file,
)

PLAN = SubmissionPlan(run="r", kind="page")


def file_of(tmp_path: Path, *lines: str) -> InputFile:
    path = tmp_path / "urls.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return InputFile(str(path), InputFormat.URLS)


def numbered(count: int) -> list[str]:
    return [f"https://a.org/{number}" for number in range(count)]


async def test_every_job_is_submitted_in_batches_and_a_second_time_is_a_duplicate(tmp_path: Path) -> None:
    queue = MemoryQueue()
    every = 2 * BATCH + 500
    source = file_of(tmp_path, *numbered(every))
    seen: list[Submission] = []
    assert await submit_file(queue, source, PLAN, progress=seen.append) == Submission("r", every, 0)
    assert [step.submitted for step in seen] == [BATCH, 2 * BATCH, every]
    assert await submit_file(queue, source, PLAN) == Submission("r", 0, every)
    assert totals(await queue.stats("r")).pending == every


async def test_two_spellings_of_a_url_are_one_job(tmp_path: Path) -> None:
    source = file_of(tmp_path, "https://a.org/?b=2&a=1", "HTTPS://A.org:443/?a=1&b=2#top")
    assert await submit_file(MemoryQueue(), source, PLAN) == Submission("r", 1, 1)


def test_a_malformed_line_in_a_file_is_found_before_anything_is_submitted(tmp_path: Path) -> None:
    source = file_of(tmp_path, *numbered(BATCH + 500), "oops")
    with pytest.raises(InputFileError, match=rf"line {BATCH + 501}: .*Nothing was submitted\.$"):
        check_file(source)


def test_a_file_that_is_not_there_is_found_before_anything_is_submitted(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"none\.txt cannot be read: No such file .*\. Nothing was submitted\.$"):
        check_file(InputFile(str(tmp_path / "none.txt"), InputFormat.URLS))


async def test_a_file_without_a_job_is_refused(tmp_path: Path) -> None:
    source = file_of(tmp_path, "# nothing yet", "")
    with pytest.raises(InputFileError, match=r"There are no jobs in .*urls\.txt\. Put one URL on each line"):
        check_file(source)
    queue = MemoryQueue()
    with pytest.raises(InputFileError, match=r"There are no jobs in .* Nothing was submitted\.$"):
        await submit_file(queue, source, PLAN)
    assert await queue.stats() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
async def test_a_malformed_line_in_a_pipe_says_how_much_was_submitted_before(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(f"{line}\n" for line in [*numbered(BATCH + 500), "oops"])
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    queue = MemoryQueue()
    source = InputFile(str(pipe), InputFormat.URLS)
    check_file(source)
    said = rf"line {BATCH + 501}: .*{BATCH:,} jobs were submitted to run r; with --run r"
    with pytest.raises(InputFileError, match=said):
        await submit_file(queue, source, PLAN)
    writer.join()
    assert totals(await queue.stats()).pending == BATCH


class FullQueue(MemoryQueue):
    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        if totals(await self.stats()).total >= BATCH:
            raise QueueFullError("The disk is full.")
        return await super().submit(jobs)


async def test_a_queue_that_fails_on_the_way_says_what_it_took_and_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(QueueFullError, match=rf"The disk is full\. Before that, {BATCH:,} jobs were .* --run r"):
        await submit_file(FullQueue(), file_of(tmp_path, *numbered(BATCH + 500)), PLAN)


@pytest.mark.parametrize("key", ["k", None])
async def test_a_job_that_no_queue_can_keep_is_a_fault_of_its_source(key: str | None) -> None:
    queue = MemoryQueue()
    few = [InputEntry(payload={"number": number}) for number in range(BATCH)]
    with pytest.raises(
        InputFileError, match=rf"the list.*cannot be stored.*Before that, {BATCH:,} jobs were submitted"
    ):
        await submit_file(queue, Generated([*few, InputEntry(payload={"a": object()}, key=key)], "the list"), PLAN)
    with pytest.raises(InputFileError, match=r"the list.*cannot be stored.*Nothing was submitted"):
        await submit_file(queue, Generated([InputEntry(payload={"a": object()}, key=key)], "the list"), PLAN)


async def test_what_a_line_says_of_itself_goes_before_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"n": 1}\n{"payload": {"n": 2}, "priority": 0, "partition": "TX", "key": "two"}\n')
    queue = MemoryQueue()
    plan = SubmissionPlan(run="r", kind="doc", priority=7, partition="CA", max_attempts=2)
    await submit_file(queue, InputFile(str(path), InputFormat.JOBS), plan)
    one, two = await queue.jobs(Selection(run="r"))
    assert (one.priority, one.partition, one.max_attempts) == (7, "CA", 2)
    assert (two.priority, two.partition, two.key, two.payload) == (0, "TX", "two", {"n": 2})


async def test_a_run_id_is_the_time_with_a_number_where_it_is_taken(tmp_path: Path) -> None:
    clock, queue = ManualClock(), MemoryQueue()
    assert await new_run_id(queue, clock) == "20231114_221320"
    for taken in ("20231114_221320", "20231114_221320_2"):
        await submit_file(queue, file_of(tmp_path, "https://a.org/"), SubmissionPlan(run=taken, kind="page"))
    assert await new_run_id(queue, clock) == "20231114_221320_3"


@pytest.mark.parametrize("run", ["", "../up", "a b", "-x", "x" * 101, "a/b", "ü"])
def test_a_run_id_that_could_not_be_a_file_name_is_refused(run: str) -> None:
    with pytest.raises(UsageError, match="cannot be a run id"):
        check_run_id(run)


class HeldSource:
    """Yields some jobs, then waits for `go_on` before the last one."""

    name, rereadable = "the pipe", False

    def __init__(self, before: int) -> None:
        self._before = before
        self.go_on = threading.Event()

    def entries(self) -> Iterator[InputEntry]:
        for number in range(self._before):
            yield InputEntry(payload={"n": number})
        assert self.go_on.wait(60)
        yield InputEntry(payload={"last": True})

    def refuse_empty(self) -> NoReturn:
        raise AssertionError


async def test_a_run_is_being_submitted_until_the_last_batch_is_in() -> None:
    queue, source, began = MemoryQueue(), HeldSource(BATCH), asyncio.Event()
    submitting = asyncio.create_task(submit_file(queue, source, PLAN, progress=lambda _: began.set()))
    await began.wait()
    assert await being_submitted(queue, "r")
    assert await being_submitted(queue, None)
    assert not await being_submitted(queue, "another")
    source.go_on.set()
    assert (await submitting).submitted == BATCH + 1
    assert not await being_submitted(queue, "r")


async def test_a_slow_source_is_known_before_its_first_batch_and_renewed_while_it_waits() -> None:
    clock = ManualClock()
    queue, source = MemoryQueue(clock), HeldSource(1)
    submitting = asyncio.create_task(submit_file(queue, source, PLAN, clock=clock))
    while not await being_submitted(queue, "r"):
        await asyncio.sleep(0)
        clock.advance(0.5)
    for _ in range(300):
        await asyncio.sleep(0)
        clock.advance(1)
        assert await being_submitted(queue, "r")
    source.go_on.set()
    assert (await submitting).submitted == 2
    assert not await being_submitted(queue, "r")


async def test_a_submission_of_one_batch_costs_no_notice(tmp_path: Path) -> None:
    queue = MemoryQueue()
    queue.register = pytest.fail  # type: ignore[assignment, method-assign]
    # On a busy machine, reading may take longer than a submission may last without notice.
    await submit_file(queue, file_of(tmp_path, *numbered(BATCH - 1)), PLAN, clock=ManualClock())


async def test_a_submission_that_fails_is_over(tmp_path: Path) -> None:
    queue = MemoryQueue()
    with pytest.raises(InputFileError, match="oops"):
        await submit_file(queue, file_of(tmp_path, *numbered(BATCH), "oops"), PLAN)
    assert not await being_submitted(queue, "r")
