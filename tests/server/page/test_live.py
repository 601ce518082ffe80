"""Live figures: one reader for all viewers, none without viewers, and streams that end when they should."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.server.conftest import Api, serving
from tests.server.page.conftest import Visitor

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.extensions.shared_state import Entries
from longshore.job import Attempt, Job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Count, Selection
from longshore.server.auth.keys import Scope
from longshore.server.pages import stream as stream_module

LEASE = timedelta(hours=10)


class CountingQueue(MemoryQueue):
    """A queue that counts how often it is asked."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.asked: Counter[str] = Counter()

    async def stats(self, run: str | None = None) -> list[Count]:
        self.asked["stats"] += 1
        return await super().stats(run)

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        self.asked["jobs"] += 1
        return await super().jobs(selection, after=after, limit=limit)

    async def history(self, job_id: str) -> list[Attempt]:
        self.asked["history"] += 1
        return await super().history(job_id)

    async def present_workers(self) -> list[PresentWorker]:
        self.asked["present"] += 1
        return await super().present_workers()

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        self.asked["entries"] += 1
        return await super().read_entries(namespace, names)


class Scene:
    """A served queue that works as a test says."""

    def __init__(self, visitor: Visitor, queue: CountingQueue, clock: ManualClock) -> None:
        self.visitor, self.queue, self.clock = visitor, queue, clock
        self._viewers: list[aiohttp.ClientResponse] = []

    async def step(self, viewers: list[aiohttp.ClientResponse]) -> None:
        """Complete a job, let a second pass, and wait until every viewer was told."""
        worker = WorkerId("w", "w")
        for lease in await self.queue.claim(Want(worker=worker, limit=1, lease=LEASE)):
            await self.queue.settle([Settlement(lease, Completed(), 0.1)])
        self.clock.advance(1.0)
        await asyncio.gather(*(event(viewer) for viewer in viewers))

    async def watch(self, query: str = "page=overview") -> aiohttp.ClientResponse:
        """Open a stream, and wait for its first event."""
        viewer = await self.visitor.session.get(f"{self.visitor.url}/live?{query}")
        assert viewer.status == 200
        self._viewers.append(viewer)
        return viewer

    async def event_with(self, text: str, viewer: aiohttp.ClientResponse) -> str:
        """Let time pass until a viewer is sent an event with a text, and return it."""
        while True:
            reading = asyncio.create_task(event(viewer))
            while not reading.done():
                self.clock.advance(1.0)
                await asyncio.wait([reading], timeout=0.02)
            if text in (told := reading.result()):
                return told

    def leave(self) -> None:
        """Close all streams."""
        for viewer in self._viewers:
            viewer.close()


async def event(viewer: aiohttp.ClientResponse) -> str:
    return (await viewer.content.readuntil(b"\n\n")).decode()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    clock = ManualClock()
    queue = CountingQueue(clock)
    async with serving(queue, clock, tmp_path) as api:
        connector = aiohttp.TCPConnector(limit=0)
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, read_bufsize=2**20) as session:
            await api.submit(*map(str, range(200)))
            await queue.register(WorkerId("w", "w"), LEASE, WorkerInfo())
            visitor = Visitor(api, session)
            await visitor.log_in(Scope.READ)
            scene = Scene(visitor, queue, clock)
            yield scene
            scene.leave()


async def test_a_hundred_viewers_ask_the_queue_no_more_often_than_one(scene: Scene) -> None:
    viewers = [await scene.watch()]
    await event(viewers[0])
    counts = []
    for number in (1, 100):
        viewers += [await scene.watch() for _ in range(number - len(viewers))]
        await asyncio.gather(*(event(viewer) for viewer in viewers[1:]))
        for _ in range(5):
            await scene.step(viewers)
        scene.queue.asked.clear()
        for _ in range(10):
            await scene.step(viewers)
        counts.append(dict(scene.queue.asked))
    assert counts[0]["stats"] > 0
    assert counts[1] == counts[0]


async def test_without_viewers_the_queue_is_not_read(scene: Scene) -> None:
    viewer = await scene.watch()
    await event(viewer)
    viewer.close()
    quiet = 0
    while quiet < 5:
        # Until the server has noticed that the viewer left; every tick is answered over the same connection.
        scene.queue.asked.clear()
        scene.clock.advance(1.0)
        assert (await scene.visitor.get("/static/0/none")).status in {303, 404}
        quiet = 0 if scene.queue.asked else quiet + 1


async def test_a_viewer_is_sent_only_the_parts_that_changed(scene: Scene) -> None:
    viewer = await scene.watch()
    first = await event(viewer)
    assert all(f'hx-target="#{name}"' in first for name in ("totals", "runs"))
    await scene.step([])
    text = await event(viewer)
    assert 'hx-target="#runs"' in text and 'hx-target="#needs"' not in text


async def test_a_viewer_that_comes_back_is_sent_nothing_that_it_has(scene: Scene) -> None:
    viewer = await scene.watch()
    number = (await event(viewer)).splitlines()[0].removeprefix("id: ")
    headers = {"Last-Event-ID": number}
    async with scene.visitor.session.get(f"{scene.visitor.url}/live?page=overview", headers=headers) as again:
        await scene.step([viewer])
        assert 'hx-target="#needs"' not in await event(again)
    viewer.close()


async def test_a_stream_ends_when_its_key_is_revoked(scene: Scene) -> None:
    viewer = await scene.watch()
    await event(viewer)
    for key in scene.visitor.api.served.keys.all():
        scene.visitor.api.served.keys.revoke(key.id, 0.0)
    scene.clock.advance(1.0)
    assert "event: ended" in await viewer.text()


async def test_a_stream_ends_when_the_server_stops(scene: Scene) -> None:
    viewer = await scene.watch()
    await event(viewer)
    scene.visitor.api.served.closing.set()
    assert await viewer.text() == ""


async def test_a_run_that_is_pruned_says_so(scene: Scene) -> None:
    await scene.visitor.api.submit("x", run="short")
    viewer = await scene.watch("page=run&run=short")
    await event(viewer)
    await scene.queue.cancel(Selection(run="short"))
    await scene.queue.prune(Selection(run="short"))
    scene.clock.advance(1.0)
    text = await viewer.text()
    assert "event: gone" in text


async def test_viewers_are_told_when_the_queue_stops_answering_and_when_it_answers_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(run: str | None = None) -> list[Count]:
        raise QueueUnavailableError("no answer from postgresql://user:s3cret@db/x")

    viewer = await scene.watch()
    assert "no answer" not in await event(viewer)
    with monkeypatch.context() as away:
        away.setattr(scene.queue, "stats", gone)
        told = await scene.event_with("The queue does not answer", viewer)
        assert "s3cret" not in told
        scene.clock.advance(10.0)
        page = await scene.visitor.get("/")
        assert (page.status, "The queue does not answer now" in page.text, "s3cret" in page.text) == (503, True, False)
    assert "The queue does not answer" not in await scene.event_with('hx-target="#needs"', viewer)


@pytest.mark.parametrize("query", ["", "page=nothing", "page=run", "page=job", "page=overview&run=r"])
async def test_a_stream_of_no_page_is_refused(scene: Scene, query: str) -> None:
    assert (await scene.visitor.get(f"/live?{query}")).status == 422


async def test_a_viewer_that_does_not_read_is_dropped(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from longshore.server.live.live_reader import LiveReader
    from longshore.server.pages.stream import LiveStreams
    from longshore.server.pages.views import LiveViews

    monkeypatch.setattr(stream_module, "SLOW_SECONDS", 0.05)
    served = api.served
    reader = LiveReader(served.clock)
    views = LiveViews(served, reader)
    streams = LiveStreams(served, reader, views)
    key = served.keys.check(api.key)
    assert key is not None
    token = served.sessions.begin(key)
    began = asyncio.Event()

    async def send(message: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    from longshore.server.auth.access import Access

    scope: Any = {
        "type": "http", "method": "GET", "path": "/live", "query_string": b"page=overview", "user": Access(key),
        "headers": [(b"cookie", f"longshore_session={token}".encode())], "state": {},
    }  # fmt: skip
    await streams.answer(scope, receive, send)
    assert began.is_set() and streams.open == 0
