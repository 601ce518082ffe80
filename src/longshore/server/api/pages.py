"""Kept pages: sent by workers, read by `longshore reparse`. They are hostile, so they are only ever attachments."""

from __future__ import annotations

from litestar import Controller, Response, get, post
from litestar.params import FromPath
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError, UsageError
from longshore.job import Job
from longshore.media.http import wire
from longshore.queue import Selection
from longshore.server.api.bundles import attachment
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.served import Served

_READ, _WORK = {SCOPE: (Scope.READ,)}, {SCOPE: (Scope.WORK,)}
_MOST_PAGES = 10_000


class PageRoutes(Controller):
    """The routes of kept pages."""

    path = "/pages"
    tags = ("traces",)

    @post("/missing", status_code=200, opt=_WORK)
    async def missing(self, data: Body[wire.MissingRequest], served: ServedQueue) -> wire.MissingAnswer:
        """Return which contents are not stored yet: only these need to be sent."""
        if len(data.contents) > _MOST_PAGES:
            raise UsageError(f"One request may name {_MOST_PAGES:,} contents.")
        return wire.MissingAnswer(await served.traces.missing(data.contents))

    @post("/contents", status_code=200, opt=_WORK)
    async def contents(self, data: Body[wire.ContentsRequest], served: ServedQueue) -> wire.ContentsAnswer:
        """Store contents of pages, each under its SHA-256."""
        return wire.ContentsAnswer(await served.traces.put_contents(data.contents))

    @post("/", status_code=200, opt=_WORK)
    async def keep(self, request: ApiCall, data: Body[wire.PagesRequest], served: ServedQueue) -> wire.KeptAnswer:
        """Store the list of the pages that the attempt under a lease fetched. Send the contents before."""
        if len(data.pages) > _MOST_PAGES:
            raise UsageError(f"One attempt may have {_MOST_PAGES:,} pages.")
        job = served.tokens.read(data.lease, request.user.key.id).job
        await served.traces.put_pages(served.queue, job, data.pages)
        return wire.KeptAnswer(kept=True)

    @get("/{job_id:str}", opt=_READ)
    async def pages(self, request: ApiCall, job_id: FromPath[str], served: ServedQueue) -> wire.PagesAnswer:
        """Return the pages of a job that a new parse should get."""
        return wire.PagesAnswer(await served.traces.pages(await _job(request.user, served, job_id)))

    @get("/{job_id:str}/{content:str}", opt=_READ)
    async def content(
        self, request: ApiCall, job_id: FromPath[str], content: FromPath[str], served: ServedQueue
    ) -> Response[bytes]:
        """Return a page of a job by the SHA-256 of its content, as an attachment that no browser shows."""
        found = await served.traces.content(await _job(request.user, served, job_id), content)
        return attachment(found, content)


async def _job(access: Access, served: Served, job_id: str) -> Job:
    found = await served.queue.jobs(Selection(ids=frozenset({job_id})), limit=1)
    if not found or not access.reaches(found[0]):
        raise NotFoundError(f"There is no job {ascii(job_id)[:60]}.")
    return found[0]
