"""The pool on a manual clock: which proxies serve and rest, and which requests wait."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.errors import ConnectionFailedError, Failure, ProcessingError
from longshore.scrape.http.client import StatusError
from longshore.scrape.proxies import ChangeLog, NoProxyError, ProxyChange, ProxyEvent, ProxyLimits, ProxyPool, ProxyTurn
from longshore.scrape.proxies.health_table import rows, unused
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.proxies.status_file import ProxyStatusWriter, read_status_files

HOUR = 3600.0


class Scene:
    """A pool of `count` proxies, its clock, and its reported changes."""

    def __init__(self, count: int, threshold: int = 10) -> None:
        self.clock = ManualClock()
        self.said: list[ProxyChange] = []
        self.proxies = [Proxy(f"http://ann:geheim@10.0.0.{n}:80") for n in range(count)]
        self.pool = ProxyPool(
            self.proxies,
            limits=ProxyLimits(threshold=threshold),
            tell=self.said.append,
            clock=self.clock,
            rng=random.Random(1),
        )

    @property
    def events(self) -> list[ProxyEvent]:
        return [change.what for change in self.said]

    async def take(self, host: str = "a.org") -> ProxyTurn:
        """Return a turn that must be available at once."""
        return await self.pool.acquire(host, within=timedelta(0))

    async def fail(self, times: int, host: str = "a.org") -> None:
        for _ in range(times):
            (await self.take(host)).answered(403)

    async def unreachable(self, times: int, host: str = "a.org") -> None:
        for _ in range(times):
            (await self.take(host)).failed(_no_proxy_there())

    async def is_open(self, host: str = "a.org") -> bool:
        try:
            (await self.take(host)).give_back()
        except NoProxyError:
            return False
        return True


def _no_proxy_there() -> Exception:
    import aiohttp_socks

    error = ConnectionFailedError("http://a.org/ could not be fetched")
    error.__cause__ = aiohttp_socks.ProxyConnectionError("Couldn't connect to proxy")
    return error


async def settle() -> None:
    """Run every task that can proceed."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_ten_failures_in_a_row_send_a_proxy_to_rest_for_an_hour() -> None:
    scene = Scene(1)
    await scene.fail(9)
    assert await scene.is_open()
    await scene.fail(1)
    assert not await scene.is_open()
    scene.clock.advance(HOUR - 1)
    assert not await scene.is_open()
    scene.clock.advance(1)
    assert await scene.is_open()


async def test_a_success_in_between_forgives_all_failures_before_it() -> None:
    scene = Scene(1)
    await scene.fail(9)
    (await scene.take()).succeeded()
    await scene.fail(9)
    assert await scene.is_open()


async def test_a_proxy_banned_at_one_host_serves_the_others() -> None:
    scene = Scene(1)
    await scene.fail(10, "a.org")
    assert not await scene.is_open("a.org")
    assert await scene.is_open("b.org")


async def test_a_proxy_that_cannot_be_reached_rests_at_every_host() -> None:
    scene = Scene(1)
    await scene.unreachable(5, "a.org")
    await scene.unreachable(5, "b.org")
    assert not await scene.is_open("c.org")
    assert [(change.what, change.host) for change in scene.said][:1] == [(ProxyEvent.RESTS, "")]


async def test_any_answer_shows_that_a_proxy_can_be_reached() -> None:
    scene = Scene(1)
    await scene.unreachable(9, "a.org")
    await scene.fail(1, "b.org")
    await scene.unreachable(9, "a.org")
    assert await scene.is_open("a.org")


async def test_after_its_rest_one_request_is_let_through_and_its_success_resets_everything() -> None:
    scene = Scene(1)
    await scene.fail(10)
    scene.clock.advance(HOUR)
    trial = await scene.take()
    assert not await scene.is_open()
    trial.succeeded()
    await scene.fail(9)
    assert await scene.is_open()
    assert scene.events[:2] == [ProxyEvent.RESTS, ProxyEvent.TRIES]
    assert ProxyEvent.SERVES in scene.events


async def test_on_probation_one_failure_is_enough_for_another_rest() -> None:
    scene = Scene(1)
    await scene.fail(10)
    scene.clock.advance(HOUR)
    await scene.fail(1)
    scene.clock.advance(HOUR - 1)
    assert not await scene.is_open()
    scene.clock.advance(1)
    assert await scene.is_open()


async def test_a_try_that_says_nothing_leaves_the_probation_to_the_next() -> None:
    scene = Scene(1)
    await scene.fail(10)
    scene.clock.advance(HOUR)
    trial = await scene.take()
    trial.failed(asyncio.CancelledError())
    assert await scene.is_open()


async def test_a_try_that_is_never_heard_of_again_shuts_nobody_out_for_good() -> None:
    scene = Scene(1)
    await scene.fail(10)
    scene.clock.advance(HOUR)
    await scene.take()
    assert not await scene.is_open()
    scene.clock.advance(HOUR)
    assert await scene.is_open()


async def test_the_try_of_one_host_that_finds_the_proxy_gone_leaves_the_probation_there() -> None:
    scene = Scene(1)
    await scene.fail(10, "a.org")
    scene.clock.advance(HOUR)
    (await scene.take("a.org")).failed(_no_proxy_there())
    assert await scene.is_open("a.org")


async def test_what_began_before_the_rest_changes_nothing_when_it_ends() -> None:
    scene = Scene(1)
    early = [await scene.take() for _ in range(4)]
    await scene.fail(10)
    early[0].succeeded()
    early[1].answered(403)
    assert not await scene.is_open()
    scene.clock.advance(HOUR)
    early[2].answered(403)
    assert await scene.is_open()
    trial = await scene.take()
    early[3].succeeded()
    assert not await scene.is_open()
    trial.succeeded()
    assert await scene.is_open()


async def test_only_the_first_verdict_of_a_turn_counts() -> None:
    scene = Scene(1, threshold=2)
    turn = await scene.take()
    turn.blocked("captcha")
    turn.answered(403)
    turn.failed(_no_proxy_there())
    turn.succeeded()
    assert [standing.troubles[0].failures for standing in scene.pool.standings()] == [1]
    await scene.fail(1)
    assert not await scene.is_open()


async def test_the_block_is_left_with_the_verdict() -> None:
    scene = Scene(1)
    async with scene.pool.turn("a.org") as turn:
        assert turn.url == "http://ann:geheim@10.0.0.0:80"
    with pytest.raises(StatusError):
        async with scene.pool.turn("a.org"):
            raise StatusError("http://a.org/", 403)
    with pytest.raises(ProcessingError):
        async with scene.pool.turn("a.org"):
            raise ProcessingError("the page has no title")
    (standing,) = scene.pool.standings()
    assert (standing.requests, standing.succeeded, standing.failed) == (3, 1, 1)


async def test_a_page_that_is_not_there_is_a_success_of_the_proxy() -> None:
    scene = Scene(1)
    await scene.fail(9)
    with pytest.raises(StatusError):
        async with scene.pool.turn("a.org"):
            raise StatusError("http://a.org/", 404)
    await scene.fail(9)
    assert await scene.is_open()


async def test_where_all_rest_every_request_waits_until_one_is_back_and_it_is_said_once() -> None:
    scene = Scene(2, threshold=1)
    await scene.fail(2)
    waiting = [asyncio.ensure_future(scene.pool.acquire("a.org")) for _ in range(5)]
    await settle()
    scene.clock.advance(HOUR - 1)
    await settle()
    assert not any(task.done() for task in waiting)
    assert scene.events.count(ProxyEvent.WAITS) == 1
    (said,) = [change for change in scene.said if change.what is ProxyEvent.WAITS]
    assert said.until == ManualClock().now() + HOUR

    scene.clock.advance(1)
    await settle()
    # Two trials are let through, one per proxy; the success of one releases all other requests.
    through = [task for task in waiting if task.done()]
    assert len(through) == 2
    through[0].result().succeeded()
    await settle()
    assert all(task.done() for task in waiting)
    assert scene.events.count(ProxyEvent.GOES_ON) >= 1


async def test_a_wait_goes_on_when_the_first_rest_ends_though_another_try_is_under_way() -> None:
    scene = Scene(2, threshold=1)
    await scene.fail(1)
    scene.clock.advance(HOUR / 2)
    await scene.fail(1)
    scene.clock.advance(HOUR / 2)
    under_way = await scene.take()
    waiting = asyncio.ensure_future(scene.pool.acquire("a.org"))
    await settle()
    assert not waiting.done()
    scene.clock.advance(HOUR / 2)
    await settle()
    assert waiting.result().proxy != under_way.proxy


async def test_proxies_that_are_gone_are_said_once_for_all_hosts() -> None:
    scene = Scene(1, threshold=1)
    await scene.unreachable(1)
    for n in range(20):
        assert not await scene.is_open(f"{n}.org")
    waits = [change for change in scene.said if change.what is ProxyEvent.WAITS]
    assert [change.host for change in waits] == [""]


async def test_a_deadline_that_comes_before_the_rest_ends_is_refused_at_once_and_says_when_to_come_back() -> None:
    scene = Scene(3, threshold=1)
    await scene.fail(3)
    scene.clock.advance(600)
    with pytest.raises(NoProxyError, match=r"No proxy is left for a\.org: all 3 rest") as refused:
        await scene.pool.acquire("a.org", within=timedelta(minutes=5))
    assert refused.value.retry_in == timedelta(minutes=50)
    assert refused.value.retryable
    assert Failure.of(refused.value).error_type == "connection"
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.retry_in) == (str(refused.value), refused.value.retry_in)


async def test_a_deadline_ends_the_wait_for_a_try_that_is_under_way() -> None:
    scene = Scene(1, threshold=1)
    await scene.fail(1)
    scene.clock.advance(HOUR)
    await scene.take()
    waiting = asyncio.ensure_future(scene.pool.acquire("a.org", within=timedelta(seconds=30)))
    await settle()
    assert not waiting.done()
    scene.clock.advance(30)
    with pytest.raises(NoProxyError) as refused:
        await waiting
    assert refused.value.retry_in == timedelta(minutes=1)


async def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    scene = Scene(1, threshold=1)
    await scene.fail(1)
    waiting = asyncio.ensure_future(scene.pool.acquire("a.org"))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    scene.clock.advance(HOUR)
    assert await scene.is_open()


async def test_the_table_says_who_rests_where_and_why_without_a_password() -> None:
    scene = Scene(2, threshold=1)
    (await scene.take("a.org")).answered(429)
    turn = await scene.take("b.org")
    turn.blocked("captcha")
    shown = rows([scene.pool.standings()], scene.clock.now())
    assert [(row.host, row.state, row.requests, row.failed, row.why) for row in shown] == [
        ("a.org", "resting", 1, 1, "answered 429 Too Many Requests"),
        ("b.org", "resting", 1, 1, "captcha"),
    ]
    assert {(row.since, row.until) for row in shown} == {(scene.clock.now(), scene.clock.now() + HOUR)}
    assert "geheim" not in str(shown)
    assert "ann:***@10.0.0" in str(shown)


async def test_the_table_says_who_is_on_probation_and_who_came_back() -> None:
    scene = Scene(1, threshold=2)
    await scene.fail(2)
    scene.clock.advance(HOUR)
    (row,) = rows([scene.pool.standings()], scene.clock.now())
    assert (row.state, row.failures, row.until) == ("probation", 2, None)
    (await scene.take()).succeeded()
    (row,) = rows([scene.pool.standings()], scene.clock.now())
    assert (row.state, row.requests, row.failed, row.since) == ("serving", 3, 2, scene.clock.now())
    assert row.why == "a try after its rest succeeded"


async def test_the_table_adds_up_what_workers_know(tmp_path: Path) -> None:
    first, second = Scene(1, threshold=2), Scene(1, threshold=2)
    await first.fail(2)
    for scene in (second, second):
        (await scene.take()).succeeded()
    (row,) = rows([first.pool.standings(), second.pool.standings()], first.clock.now())
    assert (row.state, row.requests, row.failed) == ("resting", 4, 2)
    assert (row.resting, row.workers) == (1, 2)
    # The rest may end after the last report, without a new one.
    (row,) = rows([first.pool.standings(), second.pool.standings()], first.clock.now() + HOUR + 1)
    assert (row.state, row.resting, row.until) == ("probation", 0, None)


async def test_of_very_many_hosts_only_those_asked_last_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.scrape.proxies.counters.COUNTED", 3)
    scene = Scene(1, threshold=1)
    await scene.fail(1, "banned.org")
    for n in range(10):
        (await scene.take(f"{n}.org")).succeeded()
        (await scene.take("often.org")).succeeded()
    (standing,) = scene.pool.standings()
    assert {place.host: place.requests for place in standing.places} == {
        "8.org": 1,
        "9.org": 1,
        "often.org": 10,
        "banned.org": 0,
    }
    assert standing.requests == 21


async def test_what_a_worker_posts_another_process_reads_and_only_news_are_written(tmp_path: Path) -> None:
    scene = Scene(2, threshold=1)
    poster = ProxyStatusWriter(tmp_path, "ann/7", scene.clock)
    poster.post(scene.pool)
    (told,) = read_status_files(tmp_path)
    assert (told.worker, told.at, told.alive) == ("ann", scene.clock.now(), True)
    assert unused([told.counters]) == [str(proxy) for proxy in scene.pool.proxies]
    scene.clock.advance(10)
    poster.post(scene.pool)
    assert read_status_files(tmp_path) == [told]
    await scene.fail(1)
    poster.post(scene.pool)
    (again,) = read_status_files(tmp_path)
    assert again.at == scene.clock.now()
    assert list(again.counters) == scene.pool.standings()
    assert "geheim" not in (tmp_path / "ann%2F7.json").read_text()


async def test_a_worker_that_begins_takes_away_what_ended_ones_have_posted_an_hour_ago_or_under_its_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(1)
    for worker in ("alive/1", "ended/1"):
        ProxyStatusWriter(tmp_path, worker, scene.clock).post(scene.pool)
    scene.clock.advance(3500)
    for worker in ("just ended/1", "new/1"):
        ProxyStatusWriter(tmp_path, worker, scene.clock).post(scene.pool)
    (tmp_path / "older.json").write_text('{"of": "another version"}')
    assert [told.worker for told in read_status_files(tmp_path)] == ["alive", "ended", "just ended", "new"]
    for name in ("ended%2F1", "just%20ended%2F1", "new%2F1"):
        ended = tmp_path / f"{name}.json"
        ended.write_text(ended.read_text().replace(f'"pid":{os.getpid()}', '"pid":0'))
    scene.clock.advance(200)
    monkeypatch.setattr("psutil.pid_exists", lambda pid: pid == os.getpid())
    ProxyStatusWriter(tmp_path, "new/2", scene.clock).post(scene.pool)
    assert [told.worker for told in read_status_files(tmp_path)] == ["alive", "just ended", "new"]
    assert not (tmp_path / "older.json").exists()


async def test_a_folder_that_cannot_be_written_does_not_stop_the_work(tmp_path: Path) -> None:
    (tmp_path / "proxies").write_text("a file where the folder should be")
    ProxyStatusWriter(tmp_path / "proxies", "ann/1", ManualClock()).post(Scene(1).pool)


async def test_the_log_has_a_line_for_each_change(tmp_path: Path) -> None:
    clock = ManualClock()
    pool = ProxyPool(
        [Proxy("http://ann:geheim@10.0.0.1:80")],
        limits=ProxyLimits(threshold=2, rest=timedelta(minutes=1)),
        tell=ChangeLog(tmp_path / "logs" / "proxies.log"),
        clock=clock,
    )
    for _ in range(2):
        (await pool.acquire("a.org")).answered(403)
    with pytest.raises(NoProxyError):
        await pool.acquire("a.org", within=timedelta(0))
    clock.advance(60)
    (await pool.acquire("a.org")).succeeded()
    assert (tmp_path / "logs" / "proxies.log").read_text().splitlines() == [
        "2023-11-14T22:13:20Z rests   http://ann:***@10.0.0.1:80 at a.org, until 2023-11-14T22:14:20Z: "
        "2 failures in a row, the last: answered 403 Forbidden",
        "2023-11-14T22:13:20Z waits   every proxy at a.org, until 2023-11-14T22:14:20Z: the only one rests",
        "2023-11-14T22:14:20Z tries   http://ann:***@10.0.0.1:80 at a.org",
        "2023-11-14T22:14:20Z serves  http://ann:***@10.0.0.1:80 at a.org",
        "2023-11-14T22:14:20Z goes on every proxy at a.org",
    ]


async def test_a_log_that_cannot_be_written_does_not_stop_the_work(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    ChangeLog(tmp_path / "logs" / "proxies.log")(ProxyChange(at=0.0, what=ProxyEvent.WAITS))


def test_a_pool_without_proxies_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one proxy"):
        ProxyPool([])


@pytest.mark.parametrize("limits", [{"threshold": 0}, {"rest": timedelta(0)}])
def test_limits_that_make_no_sense_are_refused(limits: dict[str, timedelta | int]) -> None:
    with pytest.raises(ValueError, match="1 failure or more"):
        ProxyLimits(**limits)  # type: ignore[arg-type]


async def test_troubles_with_very_many_hosts_are_forgotten_but_never_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.scrape.proxies.health.REMEMBERED", 5)
    scene = Scene(1, threshold=2)
    await scene.fail(2, "banned.org")
    for n in range(50):
        await scene.fail(1, f"{n}.org")
    (standing,) = scene.pool.standings()
    assert len(standing.troubles) <= 6
    assert not await scene.is_open("banned.org")
