"""A run as workers leave it: pages kept, records written, the first failure in a bundle, the rest in the queue."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog
from aiohttp import web

from longshore import new_job, open_queue
from longshore.errors import Failure
from longshore.handlers.handler import Handler
from longshore.handlers.kit import AsyncKit, JustHttp, Kit
from longshore.handlers.load import load_handlers
from longshore.lease import Lease, Want, WorkerId
from longshore.outcome import Completed, Failed, Settlement
from longshore.scrape.capture.failure_bundles import FailureBundles
from longshore.scrape.capture.failure_signature import signature_of
from longshore.scrape.capture.page_store import PageStore
from longshore.scrape.capture.trail import Trail
from longshore.scrape.http.client import AttemptHttp, Http
from longshore.scrape.records import Emission, RecordWriter

RUN = "monday"

BROKEN = """from longshore import handler, Result, new_job

def parse(text):
    return [{"n": int(part)} for part in text.split(",")]

@handler("page", retries=0)
async def page(job, kit):
    response = await kit.http.get(job.payload["url"])
    for item in parse(response.text):
        kit.emit(item, "item")
    return {"length": len(response.body)}
"""
FIXED = BROKEN.replace('text.split(",")', 'text.split(",") if part != "x"').replace(
    "int(part)}", 'int(part), "fixed": True}'
)


class Site:
    """Pages of numbers; every third has an `x` among them, on which the handler breaks. It counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def _page(self, request: web.Request) -> web.Response:
        self.asked += 1
        number = int(request.match_info["number"])
        return web.Response(text=f"{number},{number + 1},x" if number % 3 == 0 else f"{number},{number + 1}")

    async def start(self) -> tuple[web.AppRunner, str]:
        app = web.Application()
        app.router.add_get("/{number:\\d+}", self._page)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


def run_broken(folder: Path, pages: int) -> Site:
    """Run the broken handler over so many pages of a site, which is gone afterwards; every third page fails."""
    return asyncio.run(_run_broken(folder, pages))


async def _run_broken(folder: Path, pages: int) -> Site:
    (folder / "pages.py").write_text(BROKEN)
    (page,) = load_handlers(folder / "pages.py").values()
    site = Site()
    server, address = await site.start()
    queue = await open_queue(f"sqlite:///{folder}/.longshore/queue.db")
    worker = WorkerId.new("w1")
    records = RecordWriter(folder / ".longshore" / "records", worker.incarnation)
    http = Http(robots=False)
    try:
        await queue.submit([new_job("page", {"url": f"{address}/{n}"}, run=RUN) for n in range(pages)])
        while leases := await queue.claim(Want(worker=worker, limit=10)):
            for lease in leases:
                settlement = await _attempt(page, lease, http, folder / ".longshore", records)
                records.flush()
                (accepted,) = await queue.settle([settlement])
                if accepted and isinstance(settlement.outcome, Completed):
                    records.settled(lease.job.id, lease.epoch)
    finally:
        records.close()
        await queue.close()
        await http.close()
        await server.cleanup()
    return site


async def _attempt(page: Handler, lease: Lease, http: Http, folder: Path, records: RecordWriter) -> Settlement:
    job = lease.job
    trail, emission = Trail(PageStore(folder / "pages").attempt(job)), Emission()
    try:
        value = await page.invoke(
            job, AsyncKit(structlog.get_logger(), _Tools(http.attempt(watch=trail.watch), emission), job)
        )
    except Exception as error:  # noqa: BLE001
        failure = Failure.of(error)
        FailureBundles(folder / "bundles").keep(job, failure, signature_of(failure, page.function, error), trail)
        return Settlement(lease, Failed(failure, max_attempts=1))
    finally:
        trail.close()
    if (emitted := emission.emitted()) is not None:
        records.put(job, emitted)
    return Settlement(lease, Completed(value))


class _Tools(JustHttp[AttemptHttp]):
    def __init__(self, http: AttemptHttp, emission: Emission) -> None:
        super().__init__(http)
        self._emission = emission

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        return self._emission.emit(record, kind)
