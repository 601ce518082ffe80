"""The egress guard (A9): a worker pauses while its VPN is down, says why, and goes on by itself."""

from __future__ import annotations

import asyncio
import io
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web

from longshore.clock import ManualClock
from longshore.errors import SettingsError
from longshore.handlers.handler import handler
from longshore.job import State
from longshore.lease import Lease, Want
from longshore.media.memory import MemoryQueue
from longshore.observe.logs import configure
from longshore.queue import Selection
from longshore.settings import resolve
from longshore.worker import MaxIdle, MaxWork, RunFinished, WorkerConfig, WorkerReport, work
from longshore.worker.lifecycle.egress import Egress, EgressGuard, fault_of, guard, networks

VPN, HOME = "198.51.100.4", "203.0.113.7"


@handler("echo")
async def echo(job: Any, kit: Any) -> Any:
    return job.payload


class CheckSite:
    """Answers with whatever address the test wants the machine to have."""

    def __init__(self) -> None:
        self.answer = VPN
        self.status = 200
        self.asked = 0
        self.url = ""

    async def reply(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(text=self.answer, status=self.status)


@pytest.fixture
async def check_site() -> AsyncIterator[CheckSite]:
    site = CheckSite()
    app = web.Application()
    app.router.add_get("/", site.reply)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield site
    await runner.cleanup()


@pytest.fixture
def said() -> io.StringIO:
    stream = io.StringIO()
    configure(format="text", stream=stream)
    return stream


def through(site: CheckSite, **changes: Any) -> Egress:
    given: dict[str, Any] = {"required": True, "check_url": site.url, "allowed": networks("", "198.51.100.0/24")}
    return Egress(**(given | changes))


async def until(
    condition: Callable[[], bool | Awaitable[bool]], clock: ManualClock | None = None, step: float = 1.0
) -> None:
    """Move the clock, if there is one, and let the loop turn until the condition holds."""
    async with asyncio.timeout(30):
        while not ((await holds) if isinstance(holds := condition(), Awaitable) else holds):
            if clock is not None:
                clock.advance(step)
            await asyncio.sleep(0.001)


async def held(queue: MemoryQueue, count: int) -> bool:
    return len(await queue.jobs(Selection(states=frozenset({State.CLAIMED})))) == count


async def claimed_once(queue: MemoryQueue) -> bool:
    return all(job.epoch == 1 for job in await queue.jobs(Selection()))


Begin = Callable[..., "asyncio.Task[WorkerReport]"]


@pytest.fixture
def begin(clock: ManualClock, check_site: CheckSite, tmp_path: Path) -> Begin:
    """Start a guarded worker in this process."""

    def start(queue: MemoryQueue, work_handler: Any, **changes: Any) -> asyncio.Task[WorkerReport]:
        given: dict[str, Any] = {
            "queue_url": "memory://",
            "handler_file": tmp_path / "handlers.py",
            "stop": (RunFinished(),),
            "keep_awake": False,
        }
        gate = EgressGuard(through(check_site))
        handlers = {work_handler.kind: work_handler}
        config = WorkerConfig(**(given | changes))
        return asyncio.create_task(work(config, clock=clock, handlers=handlers, queue=queue, gate=gate))

    return start


class TestTheCheck:
    async def test_holds_where_the_public_address_is_allowed(self, check_site: CheckSite) -> None:
        assert await fault_of(through(check_site)) is None

    async def test_reads_json_too(self, check_site: CheckSite) -> None:
        check_site.answer = f'{{"ip": "{HOME}", "country": "nowhere"}}'
        assert await fault_of(through(check_site)) == (
            f"the public address is {HOME}, which is not in egress_allowed (198.51.100.0/24)"
        )

    async def test_fails_at_the_home_address(self, check_site: CheckSite) -> None:
        egress = through(check_site, allowed=(), forbidden=networks("", f"{HOME}, 192.0.2.0/24"))
        assert await fault_of(egress) is None
        check_site.answer = HOME
        assert await fault_of(egress) == f"the public address is {HOME}, which egress_forbidden rules out"

    async def test_sees_through_an_ipv4_address_written_as_ipv6(self, check_site: CheckSite) -> None:
        check_site.answer = f"::ffff:{VPN}\n"
        assert await fault_of(through(check_site)) is None

    @pytest.mark.parametrize(
        ("answer", "status", "why"),
        [("<html>", 200, "answered with no address: '<html>'"), (VPN, 503, "answered 503 instead of an address")],
    )
    async def test_fails_where_the_answer_is_no_address(
        self, check_site: CheckSite, answer: str, status: int, why: str
    ) -> None:
        check_site.answer, check_site.status = answer, status
        fault = await fault_of(through(check_site))
        assert fault is not None
        assert fault.endswith(why)
        assert check_site.asked == 2  # once more, before it counts

    async def test_fails_if_nothing_answers(self, unused_tcp_port: int) -> None:
        egress = Egress(required=True, check_url=f"http://user:geheim@127.0.0.1:{unused_tcp_port}/")
        fault = await fault_of(egress)
        assert fault is not None
        assert "cannot be reached" in fault
        assert "geheim" not in fault

    async def test_takes_no_proxy_of_the_environment(
        self, check_site: CheckSite, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
    ) -> None:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_tcp_port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert await fault_of(through(check_site)) is None

    async def test_looks_for_the_interface_first(self, check_site: CheckSite) -> None:
        fault = await fault_of(through(check_site, interface="tun99"))
        assert fault is not None
        assert fault.startswith("there is no network interface tun99 (there are: ")
        assert check_site.asked == 0

    async def test_finds_an_interface_that_is_up(self) -> None:
        up = next(name for name, stats in psutil.net_if_stats().items() if stats.isup)
        assert await fault_of(Egress(required=True, interface=up)) is None


class TestTheSettings:
    def settings(self, folder: Path, **variables: str) -> Any:
        return resolve(environ={f"LONGSHORE_{name.upper()}": value for name, value in variables.items()}, folder=folder)

    def test_say_what_is_required(self, tmp_path: Path) -> None:
        settings = self.settings(
            tmp_path,
            vpn="true",
            egress_interface="tun0",
            egress_allowed="198.51.100.4, 10.8.0.0/16",
            egress_check_url="http://127.0.0.1/",
            egress_every="30",
        )
        assert Egress.of(settings) == Egress(
            required=True,
            interface="tun0",
            allowed=(ipaddress.ip_network("198.51.100.4/32"), ipaddress.ip_network("10.8.0.0/16")),
            check_url="http://127.0.0.1/",
            every=timedelta(seconds=30),
        )

    @pytest.mark.parametrize(
        ("variables", "named"),
        [
            ({"egress_allowed": "10.8.0.0/99", "egress_check_url": "http://x/"}, "egress_allowed"),
            ({"egress_forbidden": HOME}, "egress_check_url"),
            ({"egress_check_url": "http://x/"}, "egress_allowed"),
        ],
    )
    def test_that_cannot_be_meant_are_refused(self, tmp_path: Path, variables: dict[str, str], named: str) -> None:
        with pytest.raises(SettingsError, match=named):
            Egress.of(self.settings(tmp_path, vpn="true", **variables))

    def test_without_a_required_vpn_nothing_is_guarded(self, tmp_path: Path, said: io.StringIO) -> None:
        assert guard(self.settings(tmp_path, vpn="false", egress_interface="tun99", egress_allowed="nonsense")) is None
        assert said.getvalue() == ""

    async def test_a_required_vpn_without_a_check_warns_once_and_lets_work_begin(
        self, tmp_path: Path, said: io.StringIO
    ) -> None:
        gate = guard(self.settings(tmp_path, vpn="true"))
        assert gate is not None
        assert [await gate.closed(), await gate.closed()] == [None, None]
        assert said.getvalue().count("WARNING A VPN is required") == 1

    async def test_a_vpn_required_only_by_default_is_left_to_doctor(self, tmp_path: Path, said: io.StringIO) -> None:
        gate = guard(self.settings(tmp_path))
        assert gate is not None
        assert [await gate.closed(), await gate.closed()] == [None, None]
        assert said.getvalue() == ""

    async def test_choosing_the_profile_that_requires_it_is_asking_for_it(
        self, tmp_path: Path, said: io.StringIO
    ) -> None:
        gate = guard(self.settings(tmp_path, profile="production"))
        assert gate is not None
        await gate.closed()
        assert "WARNING A VPN is required" in said.getvalue()

    async def test_a_required_vpn_with_a_check_is_guarded(self, tmp_path: Path) -> None:
        gate = guard(self.settings(tmp_path, vpn="true", egress_interface="tun99"))
        assert gate is not None
        assert str(await gate.closed()).startswith("the VPN check fails: there is no network interface tun99")


class TestTheWorker:
    async def test_begins_nothing_before_the_first_check_holds(
        self, begin: Begin, some_jobs: Any, check_site: CheckSite, clock: ManualClock, said: io.StringIO
    ) -> None:
        check_site.answer = HOME
        queue = MemoryQueue(clock)
        await queue.submit(some_jobs("echo", 3))
        task = begin(queue, echo)
        await until(lambda: check_site.asked >= 3, clock)
        assert {job.state for job in await queue.jobs(Selection())} == {State.PENDING}
        check_site.answer = VPN
        await until(task.done, clock)
        assert (await task).completed == 3
        assert said.getvalue().count("PAUSED: the VPN check fails: the public address is 203.0.113.7") == 1
        assert said.getvalue().count("RESUMED") == 1

    async def test_finishes_attempts_under_way_and_gives_back_the_rest_when_the_vpn_drops(
        self, begin: Begin, some_jobs: Any, check_site: CheckSite, clock: ManualClock
    ) -> None:
        may_end = asyncio.Event()
        begun = []

        @handler("slow")
        async def slow(job: Any) -> None:
            begun.append(job.payload["number"])
            if len(begun) > 2:
                await may_end.wait()

        queue = MemoryQueue(clock)
        await queue.submit(some_jobs("slow", 12))
        # Two quick ones first, so that the worker believes in quick jobs and claims ahead.
        task = begin(queue, slow, concurrency=2)
        await until(lambda: len(begun) == 4)
        check_site.answer = HOME
        jobs = await queue.jobs(Selection(states=frozenset({State.CLAIMED})))
        assert len(jobs) > 2, "nothing was claimed ahead"
        await until(lambda: check_site.asked == 2, clock, step=5.0)
        await until(lambda: held(queue, 2))
        may_end.set()
        await until(lambda: held(queue, 0))
        for _ in range(20):
            clock.advance(1.0)
            await asyncio.sleep(0)
        assert len(begun) == 4
        counts = await queue.stats()
        assert (counts[0].completed, counts[0].pending) == (4, 8)
        check_site.answer = VPN
        await until(task.done, clock)
        assert (await task).completed == 12

    async def test_stops_when_others_finish_the_run_while_it_is_shut_out(
        self, begin: Begin, check_site: CheckSite, clock: ManualClock
    ) -> None:
        check_site.answer = HOME
        task = begin(MemoryQueue(clock), echo)
        await until(task.done, clock)
        assert (await task).reason == "every run is finished"

    async def test_time_shut_out_is_not_idle_time(
        self, begin: Begin, some_jobs: Any, check_site: CheckSite, clock: ManualClock
    ) -> None:
        check_site.answer = HOME
        queue = MemoryQueue(clock)
        await queue.submit(some_jobs("echo", 1))
        stop = (MaxIdle(timedelta(minutes=1)), MaxWork(1))
        task = begin(queue, echo, stop=stop)
        await until(lambda: check_site.asked == 4, clock)
        assert not task.done()
        check_site.answer = VPN
        await until(task.done, clock)
        assert (await task).reason == "reached the limit of 1 jobs"

    async def test_gives_back_what_a_claim_brings_after_the_gate_has_closed(
        self, begin: Begin, some_jobs: Any, check_site: CheckSite, clock: ManualClock, said: io.StringIO
    ) -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        class SlowQueue(MemoryQueue):
            async def claim(self, want: Want) -> list[Lease]:
                asked.set()
                await may_answer.wait()
                return await super().claim(want)

        queue = SlowQueue(clock)
        await queue.submit(some_jobs("echo", 3))
        task = begin(queue, echo)
        await asked.wait()
        check_site.answer = HOME
        await until(lambda: "PAUSED" in said.getvalue(), clock)
        may_answer.set()
        await until(lambda: claimed_once(queue))
        await until(lambda: held(queue, 0))
        counts = await queue.stats()
        assert (counts[0].pending, counts[0].completed) == (3, 0)
        check_site.answer = VPN
        await until(task.done, clock)
        report = await task
        assert (report.completed, report.released) == (3, 3)
