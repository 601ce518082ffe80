"""What `run` says while all it has left waits for hosts that are closed."""

from __future__ import annotations

from longshore.clock import ManualClock
from longshore.job import new_job
from longshore.media.memory import MemoryQueue
from longshore.pacing.choose_store import rate_store_for
from longshore.pacing.host_rate import AnswerCounts, RatePolicy, unknown
from longshore.pacing.rate_learning import fold
from longshore.queue import totals
from longshore.runs.watch.current_rate import CurrentRate
from longshore.ui.local.host_notices import EVERY, HostNews


async def closed_for(queue: MemoryQueue, clock: ManualClock, host: str, seconds: float) -> None:
    now = clock.now()
    tally = AnswerCounts(refused=1, hard=True, status=429, sent=now, closed_until=now + seconds)
    store = rate_store_for(queue, clock)
    await store.write(
        host, (await store.read(host)).version, fold(unknown(now, RatePolicy()), tally, now, RatePolicy())
    )
    store.close()


async def test_a_closed_host_is_said_once_and_the_time_left_is_until_it_opens() -> None:
    clock, said = ManualClock(), list[str]()
    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {"url": f"https://a.org/{n}"}, run="one") for n in range(3)])
    await closed_for(queue, clock, "a.org", 120)
    news, pace = HostNews(queue, "one", clock, said.append), CurrentRate()
    count = totals(await queue.stats("one"))

    assert await news.look(count) is None, "not before anybody wonders"
    clock.advance(EVERY)
    opens = await news.look(count)
    assert opens is not None
    clock.advance(EVERY)
    assert await news.look(count) == opens
    assert said == ["a.org is closed for 1 min 55 s: it answered 429 with Retry-After. Its jobs wait."]

    pace.note(clock.monotonic() - 1, 0)
    pace.note(clock.monotonic(), 40)
    pace.wait_until(opens)
    assert pace.seconds_left(3) == 120 - 2 * EVERY


async def test_while_another_host_takes_requests_nothing_is_said_of_the_time() -> None:
    clock, said = ManualClock(), list[str]()
    queue = MemoryQueue(clock)
    await queue.submit([new_job("page", {"url": f"https://{host}/"}, run="one") for host in ("a.org", "b.org")])
    await closed_for(queue, clock, "a.org", 120)
    news = HostNews(queue, "one", clock, said.append)
    clock.advance(EVERY)
    assert await news.look(totals(await queue.stats("one"))) is None
    assert len(said) == 1
