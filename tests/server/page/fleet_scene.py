"""A queue as a team has it on a busy day: runs in every state, failures, hosts, workers, a failure bundle.

`fill` makes it; `Crew` goes on to work on it, so that the figures move.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import struct
import zlib
from datetime import timedelta
from pathlib import Path

import msgspec

from longshore.clock import ManualClock, SystemClock
from longshore.errors import Failure
from longshore.extensions.find import require
from longshore.extensions.kind_schemas import publish_schemas
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.extensions.shared_state import SharedState, StateEntry
from longshore.job import Job, NewJob, State, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.outcome import Completed, Failed, Outcome, Settlement
from longshore.pacing.host_rate import HostRate
from longshore.pacing.store_shared import PACE
from longshore.queue import Queue, Selection
from longshore.runs.control.pause import pause
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.failure_bundles import FailureBundles
from longshore.scrape.capture.failure_signature import FailureSignature
from longshore.scrape.capture.trail import Trail
from longshore.scrape.records import Emission, Emitted, Rejected
from longshore.server.pages.us_states import STATES
from longshore.server.traces.trace_store import TraceStore
from longshore.stored import JsonObject

RUN = "listings-november"
LEASE = timedelta(seconds=120)
PAST_SECONDS = 140.0
TRADES = ("plumbers", "roofers", "dentists", "florists", "bakers", "movers")
HOSTS = ("shop-a.test", "shop-b.test", "shop-c.test", "directory.example")
WORKERS = ("rack-1/0", "rack-1/1", "rack-2/0", "rack-2/1", "office-laptop-2")
TRACEBACK = """Traceback (most recent call last):
  File "/srv/fleet/listings.py", line 61, in target
    card = parse_card(row)
  File "/srv/fleet/listings.py", line 84, in parse_card
    phone = card["phone"]
KeyError: 'phone'
"""
NO_PHONE = Failure("unknown", "'phone'", "KeyError", retryable=False, traceback=TRACEBACK, handler_version="3fa9c1d2")
TOO_MANY = Failure("connection", "429 Too Many Requests from shop-b.test after 9 tries", "longshore.StatusError")
SLOW = Failure("timeout", "no answer within 30 s", "TimedOutError")


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "cik": {"type": "integer", "description": "The number of the company at the registry"},
        "form": {"enum": ["10-K", "10-Q", "8-K"], "default": "10-K"},
        "since": {"type": "string", "description": "Only filings from this day on"},
        "amended": {"type": "boolean"},
    },
    "required": ["cik", "form"],
}


def listings(cities: int) -> list[NewJob]:
    """Return the jobs of the big run: each state has some cities more or less."""
    chance = random.Random(4)
    jobs = []
    for state in STATES:
        for city in range(cities + chance.randrange(cities)):
            trade, host = chance.choice(TRADES), chance.choice(HOSTS)
            payload = {"url": f"https://{host}/{state.lower()}/city-{city}/{trade}", "state": state, "category": trade}
            jobs.append(new_job("target", payload, run=RUN, partition=state))
    chance.shuffle(jobs)
    return jobs


async def fill(queue: Queue, folder: Path, *, cities: int = 60, clock: ManualClock | None = None) -> Job:
    """Fill the queue and the data folder. Return a failed job that has a bundle.

    With `clock`, that of the queue, the jobs were finished over the last minutes.
    """
    chance, traces = random.Random(7), TraceStore(folder)
    await queue.submit(listings(cities))
    await queue.submit([new_job("filing", {"cik": n}, run="filings-2010") for n in range(900)])
    await queue.submit(
        [new_job("page", {"url": f"https://registers.example/{n}"}, run="registers-india") for n in range(2000)]
    )
    await queue.submit([new_job("work order", {"club": n}, run="clubs-week-46") for n in range(120)])
    await queue.submit([new_job("pdf", {"file": f"annual-{n}.pdf"}, run="filings-2010") for n in range(40)])
    for run, share in (("filings-2010", 0.4), ("registers-india", 0.06), ("clubs-week-46", 1.0)):
        kinds = frozenset({"filing"}) if run == "filings-2010" else None
        await _work_off(queue, chance, share, run=run, kinds=kinds)
    for state in STATES:
        share = chance.choice((0.15, 0.35, 0.5, 0.65, 0.8, 0.95))
        await _work_off(queue, chance, share, run=RUN, partition=state, traces=traces)
        if clock is not None:
            clock.advance(PAST_SECONDS / len(STATES))
    await traces.close()
    await pause(queue, "registers-india")
    await publish_schemas(require(queue, SharedState, "has no shared state"), {"filing": SCHEMA})
    await _rates(queue)
    for label in WORKERS:
        busy = await queue.claim(Want(worker=WorkerId(label, label), run=RUN, limit=3, lease=LEASE))
        await _register(queue, label, len(busy))
    failed = await queue.jobs(
        Selection(run=RUN, states=frozenset({State.FAILED}), error="KeyError", partitions=frozenset({"NV", "CA", "TX"}))
    )
    _bundle(folder, failed[0])
    return failed[0]


async def _work_off(
    queue: Queue,
    chance: random.Random,
    share: float,
    *,
    run: str,
    kinds: frozenset[str] | None = None,
    partition: str = "",
    traces: TraceStore | None = None,
) -> None:
    """Finish a share of the jobs, one way or another; the completed ones have records, if there is a store for them."""
    counts = [count for count in await queue.stats(run) if not partition or count.partition == partition]
    left = int(sum(count.total for count in counts if kinds is None or count.kind in kinds) * share)
    partitions = frozenset({partition}) if partition else None
    worker = WorkerId("rack-1/0", "rack-1/0")
    want = Want(worker=worker, run=run, kinds=kinds, partitions=partitions, limit=left, lease=LEASE)
    leases = await queue.claim(want)
    settlements = [Settlement(lease, _end(lease, chance), chance.uniform(0.3, 2.5)) for lease in leases]
    if traces is not None:
        done = [(each.lease.job, each.outcome.result) for each in settlements if isinstance(each.outcome, Completed)]
        await traces.keep_records(queue, [_records(job, result["name"], chance) for job, result in done])
    accepted = await queue.settle(settlements)
    if traces is not None:
        traces.settled(settlements, accepted)


def _records(job: Job, name: str, chance: random.Random) -> tuple[Job, Emitted]:
    """Return the record of a listing: some fields are missing on some pages, and a few are rejected."""
    listing = {"name": name, "phone": "775-555-0100", "address": "1 Main Street"}
    listing["website"] = job.payload["url"] if chance.random() < 0.7 else ""
    if chance.random() < 0.34:
        listing["opening_hours"] = "Mo-Fr 8-17"
    found = Emission()
    found.emit(listing, kind="listing")
    rejected = (Rejected("listing", "no phone number", 1),) if chance.random() < 0.03 else ()
    emitted = found.emitted()
    assert emitted is not None
    return job, msgspec.structs.replace(emitted, rejected=rejected)


def _end(lease: Lease, chance: random.Random) -> Outcome:
    job, luck = lease.job, chance.random()
    if job.run == "registers-india":
        return Completed({"ok": True})
    state = job.payload.get("state")
    if job.host == "shop-b.test" and luck < 0.05:
        return Failed(TOO_MANY, retry_in=timedelta(hours=1))
    if luck < (0.3 if state == "NV" else 0.012):
        return Failed(NO_PHONE)
    if luck > 0.996:
        return Failed(msgspec.structs.replace(SLOW, retryable=False))
    return Completed({"name": f"Listing {job.id}", "phone": "775-555-0100", "rating": round(luck * 5, 1)})


async def _register(queue: Queue, label: str, busy: int) -> None:
    info = WorkerInfo(
        machine=label.partition("/")[0], slots=4, busy=busy, kinds=("target", "filing", "page", "work order")
    )
    await require(queue, WorkerRegistry, "knows no workers").register(WorkerId(label, label), LEASE, info)


async def _rates(queue: Queue) -> None:
    state = require(queue, SharedState, "has no shared state")
    now = (await state.read_entries(PACE)).now
    rates = {
        "shop-a.test": HostRate(rate=9.6, ceiling=10.0, grown_at=now, answers=8120, refusals=14, last_status=429),
        "shop-b.test": HostRate(
            rate=5.5, ceiling=6.0, grown_at=now, answers=3100, refusals=212, last_status=403, closed_until=now + 240,
            why="it answered 403 for the sixth time in a row", last_refusal=now - 60,
        ),
        "shop-c.test": HostRate(rate=24.0, grown_at=now, answers=6044),
        "directory.example": HostRate(rate=1.0, grown_at=now, answers=900, crawl_delay=2.0),
    }  # fmt: skip
    await state.swap_entries(PACE, [StateEntry(name, "", msgspec.to_builtins(rate)) for name, rate in rates.items()])


def _bundle(folder: Path, job: Job) -> None:
    trail = Trail()
    url = job.payload["url"]
    html = (
        "<!doctype html><title>Plumbers in Reno</title><h1>Plumbers in Reno</h1>"
        "<script>document.title = 'owned'; parent.document.title = 'owned'</script>"
        "<ul><li>Reno Pipes, tel 775-555-0100<li>Silver State Plumbing, tel 775-555-0143</ul>"
    )
    trail.watch(Exchange(url=url, status=200, headers={"Content-Type": "text/html"}, body=html.encode(), seconds=0.4))
    trail.screenshot = picture()
    signature = FailureSignature("KeyError", "listings.py", "parse_card", 84)
    kept = FailureBundles(folder / "bundles", worker="rack-1/0").keep(job, NO_PHONE, signature, trail)
    assert kept is not None


def picture(width: int = 640, height: int = 400) -> bytes:
    """Return a PNG that looks like a page from afar."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            if y < 56:
                colour = (38, 70, 120)
            elif 40 < x < 600 and y % 44 > 12 and y > 80:
                text = (y % 44 < 20 and x < 300) or (26 < y % 44 < 32 and x < 520)
                colour = (90, 98, 110) if text else (238, 241, 246)
            else:
                colour = (252, 252, 253)
            rows += bytes(colour)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b"")
    )


class Crew:
    """Works on the big run at some jobs a second, until it is cancelled."""

    def __init__(self, queue: Queue, per_second: float = 30.0) -> None:
        self._queue = queue
        self._pause = 0.2
        self._each = max(round(per_second * self._pause), 1)

    async def work(self) -> None:
        clock, chance = SystemClock(), random.Random(1)
        for label in itertools.cycle(WORKERS):
            worker = WorkerId(label, label)
            await _register(self._queue, label, 3)
            number = max(self._each + chance.randrange(-2, 3), 1)
            want = Want(
                worker=worker, run=chance.choice([RUN, RUN, "filings-2010"]), limit=number, lease=LEASE,
                without_hosts=frozenset({"shop-b.test"}), kinds=frozenset({"target", "filing"}),
            )  # fmt: skip
            leases = await self._queue.claim(want)
            await self._queue.settle([Settlement(lease, _end(lease, chance), 0.8) for lease in leases])
            await clock.sleep(self._pause)


async def _main(url: str, folder: str) -> None:
    from longshore.media import open_queue

    queue = await open_queue(url)
    await fill(queue, Path(folder))
    await Crew(queue).work()


if __name__ == "__main__":
    import sys

    asyncio.run(_main(*sys.argv[1:]))
