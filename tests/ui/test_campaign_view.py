"""The view of a local run: it shows the counts, and goes on when the queue does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.fleet.supervise.supervisor import Fleet
from longshore.job import new_job
from longshore.media.memory import MemoryQueue
from longshore.queue import Count, totals
from longshore.runs.local.campaign import Campaign
from longshore.runs.watch.current_rate import CurrentRate
from longshore.settings import resolve
from longshore.ui.local.campaign_view import CampaignView
from longshore.ui.local.host_notices import EVERY


class Shown:
    """Keeps the counts and sentences that were shown."""

    def __init__(self) -> None:
        self.counts: list[Count] = []
        self.paces: list[CurrentRate] = []
        self.said: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, count: Count, pace: CurrentRate) -> None:
        self.counts.append(count)
        self.paces.append(pace)

    def say(self, text: str) -> None:
        self.said.append(text)


class Unavailable(MemoryQueue):
    """A queue that counts its jobs, but cannot list them now."""

    async def jobs(self, *_: object, **__: object) -> list[object]:  # type: ignore[override]
        raise QueueUnavailableError("The queue is busy.")


def view(queue: MemoryQueue, clock: ManualClock) -> tuple[CampaignView, Shown]:
    shown = Shown()
    made = CampaignView(queue, Campaign("one", Path("pages.py"), resolve({}), Path("logs")), shown)
    made.begin(Fleet([], made.say, clock))
    return made, shown


async def test_counts_are_shown_and_a_queue_that_does_not_answer_is_not() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {"url": "https://a.org/"}, run="one")])
    made, shown = view(queue, clock)
    count = totals(await queue.stats("one"))
    await made.update(count)
    await made.update(None)
    assert shown.counts == [count]
    made.finish(count)
    assert shown.counts == [count, count]


async def test_of_a_crawl_that_grows_no_time_is_promised() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    made, shown = view(queue, clock)
    for done, pending in ((0, 1), (120, 300), (370, 630)):
        await made.update(Count(run="one", completed=done, pending=pending))
        assert shown.paces[-1].seconds_left(pending) is None
        clock.advance(1.0)
    assert shown.paces[-1].per_second == 185.0


async def test_hosts_that_cannot_be_read_do_not_end_the_run() -> None:
    clock = ManualClock()
    queue = Unavailable(clock)
    await queue.submit([new_job("page", {"url": "https://a.org/"}, run="one")])
    made, shown = view(queue, clock)
    clock.advance(EVERY)
    await made.update(totals(await queue.stats("one")))
    assert not shown.said
