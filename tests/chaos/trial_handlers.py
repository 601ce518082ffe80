"""The handlers of a trial, copied into its folder. Chance decides what an attempt does, by the job's key and epoch."""

import asyncio
import random
import time
from contextlib import suppress

from tests.chaos.recording import (
    attempt_of,
    many_odd_rows,
    note_entered,
    note_left,
    note_record,
    reparsing,
    takes_stubborn_jobs,
)

from longshore import AsyncKit, Job, Kit, ProcessingError, Result, Snooze, SyncKit, handler, new_job

VERSION = "1"


def drawn(job: Job) -> random.Random:
    note_entered(job)
    return random.Random(f"{job.run} {job.key} {job.epoch}")


def ended(job: Job, kit: Kit, chance: random.Random) -> Result | Snooze:
    """Emit records and end the attempt in one of the ways that a handler has."""
    attempt = attempt_of(job)
    for number in range(chance.choice([0, 1, 1, 3])):
        data = {"attempt": [*attempt], "number": number, "text": chance.choice(["plain", "naïve ✓", "a\tb"])}
        note_record(job, data)
        kit.emit(data, kind="item")
    if chance.random() < (0.2 if many_odd_rows() else 0.02):
        # A folder stores it. The database of a trial refuses this kind, and then the attempt has failed.
        data = {"attempt": [*attempt], "number": "odd"}
        note_record(job, data)
        note_left(job, "unstorable")
        kit.emit(data, kind="odd")
    mood = chance.random()
    if mood < 0.07:
        note_left(job, "raised")
        raise ValueError(f"bad luck at epoch {job.epoch}")
    if mood < 0.12:
        note_left(job, "raised")
        raise ProcessingError("never again", retryable=False)
    if mood < 0.17:
        note_left(job, "returned")
        return Snooze(chance.choice([0.1, 0.5]))
    jobs = []
    if mood < 0.4 and job.depth < 3:
        # Few names, so that several jobs find the same follow-on.
        names = {chance.randrange(40) for _ in range(chance.randint(1, 4))}
        jobs = [new_job(chance.choice(["page", "plain"]), {"n": n}, key=f"found-{n}") for n in sorted(names)]
        # A page that links to itself.
        jobs.append(new_job(job.kind, job.payload, key=job.key, partition=job.partition))
    note_left(job, "returned")
    return Result({"attempt": [*attempt], "version": VERSION}, jobs)


@handler("page", timeout=60, retries=6, backoff=0.1)
async def page(job: Job, kit: AsyncKit) -> Result | Snooze:
    chance = drawn(job)
    await asyncio.sleep(chance.choice([0, 0, 0.02, 0.2]))
    return ended(job, kit, chance)


@handler("plain", timeout=60, retries=6, backoff=0.1)
def plain(job: Job, kit: SyncKit) -> Result | Snooze:
    chance = drawn(job)
    time.sleep(chance.choice([0, 0.02, 0.1]))
    return ended(job, kit, chance)


@handler("long", timeout=60, retries=6, backoff=0.1)
async def long(job: Job, kit: AsyncKit) -> Result | Snooze:
    chance = drawn(job)
    await asyncio.sleep(chance.uniform(0.5, 2.5))
    return ended(job, kit, chance)


@handler("fetch", timeout=60, retries=6, robots=False)
async def fetch(job: Job, kit: AsyncKit) -> Result | Snooze:
    """Fetch a page. The parser of workers fails on some pages; that of a reparse does not."""
    chance = drawn(job)
    response = await kit.http.get(job.payload["url"])
    data = {"attempt": [*attempt_of(job)], "text": response.text}
    note_record(job, data)
    kit.emit(data, kind="item")
    if int(response.text) % 3 == 0 and not reparsing():
        note_left(job, "raised")
        raise ProcessingError("the parser is broken", retryable=False)
    note_left(job, "returned")
    jobs = [new_job("page", {"n": n}, key=f"linked-{n}") for n in range(chance.randint(0, 2))]
    return Result({"attempt": [*attempt_of(job)]}, jobs)


@handler("blocks", timeout=1, retries=6, backoff=0.1)
async def blocks(job: Job, kit: AsyncKit) -> Result | Snooze:
    """Block the event loop past the timeout: the watchdog ends the worker."""
    chance = drawn(job)
    if job.epoch < 2:
        note_left(job, "overstayed")
        time.sleep(3600)  # noqa: ASYNC251 (that is the fault)
    return ended(job, kit, chance)


if takes_stubborn_jobs():

    @handler("stubborn", timeout=60, retries=6, backoff=0.1)
    async def stubborn(job: Job, kit: AsyncKit) -> Result | Snooze:
        """Do not end when cancelled: a worker that leaves at once cannot wait for it."""
        chance = drawn(job)
        until = time.monotonic() + (20 if job.epoch < 2 else 0)
        while time.monotonic() < until:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)
        return ended(job, kit, chance)
