"""Failure bundles: sent by workers, looked at by people. Their pages are hostile, so they are only ever attachments."""

from __future__ import annotations

from litestar import Controller, Response, get, post
from litestar.params import FromPath, FromQuery
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError, UsageError
from longshore.extensions.traces import SCREENSHOT, BundleEntry, BundleFiles
from longshore.media.http import wire
from longshore.queue import Selection
from longshore.scrape.capture.failure_bundles import MOST_SCREENSHOT_BYTES
from longshore.scrape.capture.trail import MOST_BYTES, MOST_EXCHANGES
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.auth.leases import LostLeaseError
from longshore.server.served import Served

_READ = {SCOPE: (Scope.READ, Scope.WORK)}
_WORK = {SCOPE: (Scope.WORK,)}
_MOST_BODY_BYTES = 2 * MOST_BYTES
"""The latest exchange is kept even if it alone is larger than a trail should be."""
_MOST_TEXT_BYTES = 4 * 1024 * 1024


class BundleRoutes(Controller):
    """The routes of failure bundles."""

    path = "/bundles"
    tags = ("traces",)

    @post("/", status_code=200, opt=_WORK)
    async def keep(self, request: ApiCall, data: Body[wire.BundleRequest], served: ServedQueue) -> wire.KeptAnswer:
        """Store a failure bundle of the attempt under a lease. `kept` is false if there are enough of its kind."""
        lease = served.tokens.read(data.lease, request.user.key.id)
        if len(data.bodies) > MOST_EXCHANGES or sum(map(len, data.bodies)) > _MOST_BODY_BYTES:
            raise UsageError(
                f"A bundle has at most {MOST_EXCHANGES} exchanges and {_MOST_BODY_BYTES:,} bytes of pages."
            )
        if len(data.screenshot) > MOST_SCREENSHOT_BYTES or len(data.bundle) > _MOST_TEXT_BYTES:
            raise UsageError("The screenshot or the text of the bundle is too large.")
        found = await served.queue.jobs(Selection(ids=frozenset({lease.job.id})), limit=1)
        if not found or found[0].epoch != lease.epoch:
            raise LostLeaseError("The lease is lost, so its bundle would belong to nothing.")
        files = BundleFiles(bundle=data.bundle, bodies=data.bodies, screenshot=data.screenshot)
        return wire.KeptAnswer(await served.traces.keep_bundle(found[0], files))

    @get("/", opt=_READ)
    async def bundles(
        self, request: ApiCall, served: ServedQueue, run: FromQuery[str | None] = None
    ) -> wire.BundlesAnswer:
        """Return the failure bundles of all runs or of one, oldest first."""
        access = request.user
        return wire.BundlesAnswer(
            [
                each
                for each in await served.traces.bundles()
                if run in (None, each.run) and access.reaches_name(each.run, each.kind)
            ]
        )

    @get("/{name:str}", opt=_READ)
    async def bundle(self, request: ApiCall, name: FromPath[str], served: ServedQueue) -> BundleEntry:
        """Return one failure bundle as it is listed."""
        return await _reached(request.user, served, name)

    @get("/{name:str}/screenshot", opt=_READ)
    async def screenshot(self, request: ApiCall, name: FromPath[str], served: ServedQueue) -> Response[bytes]:
        """Return the picture of the browser, as PNG."""
        await _reached(request.user, served, name)
        return Response(await served.traces.bundle_file(name, SCREENSHOT), media_type="image/png")

    @get("/{name:str}/files/{file:str}", opt=_READ)
    async def file(
        self, request: ApiCall, name: FromPath[str], file: FromPath[str], served: ServedQueue
    ) -> Response[bytes]:
        """Return a file of a bundle, as an attachment that no browser shows."""
        await _reached(request.user, served, name)
        return attachment(await served.traces.bundle_file(name, file), file)


def attachment(content: bytes, name: str) -> Response[bytes]:
    """Return bytes from the web as a download: a browser must neither show nor guess them. `name` is a plain one."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": "sandbox"}
    return Response(content, media_type="application/octet-stream", headers=headers)


async def _reached(access: Access, served: Served, name: str) -> BundleEntry:
    entry = await served.traces.bundle(name)
    if not access.reaches_name(entry.run, entry.kind):
        raise NotFoundError(f"There is no failure bundle {ascii(name)[:100]}.")
    return entry
