"""Submit jobs in batches while they are read, and tell the others that more may come.

The jobs are read in a thread: a pipe or a program may take its time, and the notice that the submission is under way
must be renewed meanwhile. The next batch is read while the queue stores the one before.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Generator

from longshore.clock import Clock
from longshore.extensions.submissions import SubmissionNotice
from longshore.job import NewJob
from longshore.observe.traces import traced
from longshore.queue import Queue, Submitted
from longshore.system.daemon_thread import DaemonThread
from longshore.system.first_of import first_of
from longshore.wrappers.differing_duplicates import DifferingDuplicates, DuplicateComparison

BATCH = 5000
"""Jobs per call; a larger batch is not faster."""
_PATIENCE = 1.0
"""Seconds to wait for the first batch before the notice is given. A shorter submission of one batch needs none."""


async def submit_batches(
    queue: Queue,
    run: str,
    jobs: Generator[NewJob, None, None],
    clock: Clock,
    answered: Callable[[Submitted], None],
) -> DifferingDuplicates:
    """Submit all jobs to `run`; call `answered` with the answer to each batch. Raise what reading or submitting raises.

    Return the jobs that were left out as duplicates although their payloads differ; they are counted with the run. A
    batch with a job that cannot be read is not submitted; the batches before it are.
    """
    thread, submitting = DaemonThread("submission"), traced(queue)

    def read() -> asyncio.Task[list[NewJob]]:
        return asyncio.create_task(thread.call(lambda: list(itertools.islice(jobs, BATCH))))

    reading = read()
    comparison, differing = DuplicateComparison(queue), DifferingDuplicates()
    try:
        async with SubmissionNotice(queue, run, clock) as notice:
            if await first_of(asyncio.shield(reading), clock.sleep(_PATIENCE)) is None:
                await notice.begin()
            while batch := await reading:
                reading = read()
                if len(batch) == BATCH:
                    await notice.begin()
                answer = await submitting.submit(batch)
                answered(answer)
                if answer.duplicates:
                    comparison.note(run, batch)
                    differing += (await comparison.compare()).get(run, DifferingDuplicates())
            await comparison.store()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        thread.close(jobs.close)
    return differing
