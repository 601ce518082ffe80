"""Jobs: create, look at, change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from litestar import Controller, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError, UsageError
from longshore.extensions.archive import Archives
from longshore.extensions.find import require
from longshore.extensions.payloads import PayloadLookup
from longshore.extensions.transfer import TakesOver
from longshore.job import Job, State
from longshore.media.http import wire
from longshore.queue import Selection, Submitted
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.served import Served

_READ = {SCOPE: (Scope.READ, Scope.WORK)}
_SUBMIT, _ADMIN = {SCOPE: (Scope.SUBMIT,)}, {SCOPE: (Scope.ADMIN,)}
_LOOK_UP = {SCOPE: (Scope.READ, Scope.WORK, Scope.SUBMIT)}
_NO_ARCHIVE = "has no archive: `longshore prune` removes finished jobs."


class JobRoutes(Controller):
    """The routes of jobs."""

    path = "/jobs"
    tags = ("jobs",)

    @post("/", status_code=200, opt=_SUBMIT)
    async def submit(self, request: ApiCall, data: Body[wire.SubmitRequest], served: ServedQueue) -> Submitted:
        """Create jobs. A job that is there already is a duplicate and is left as it is."""
        jobs = [body.job() for body in data.jobs]
        request.user.check_new(jobs)
        return await served.queue.submit(jobs)

    @get("/", opt=_READ)
    async def page(
        self,
        request: ApiCall,
        served: ServedQueue,
        run: FromQuery[str | None] = None,
        kind: FromQuery[str | None] = None,
        partition: FromQuery[str | None] = None,
        job_state: Annotated[State | None, QueryParameter(name="state")] = None,
        error: FromQuery[str | None] = None,
        after: FromQuery[str] = "",
        limit: FromQuery[int] = 100,
    ) -> wire.JobsAnswer:
        """Return a page of jobs, oldest first; `after` is the id of the last job of the page before."""
        selection = Selection(
            run=run,
            kinds=None if kind is None else frozenset({kind}),
            partitions=None if partition is None else frozenset({partition}),
            states=None if job_state is None else frozenset({job_state}),
            error=error,
        )
        return await _page(request.user, served, selection, after, limit)

    @post("/search", status_code=200, opt=_READ)
    async def search(self, request: ApiCall, data: Body[wire.JobsRequest], served: ServedQueue) -> wire.JobsAnswer:
        """Return a page of the selected jobs, oldest first."""
        return await _page(request.user, served, data.where.selection(), data.after, data.limit)

    @get("/{job_id:str}", opt=_READ)
    async def job(self, request: ApiCall, job_id: FromPath[str], served: ServedQueue) -> Job:
        """Return one job."""
        return await _job(request.user, served, job_id)

    @get("/{job_id:str}/attempts", opt=_READ)
    async def attempts(self, request: ApiCall, job_id: FromPath[str], served: ServedQueue) -> wire.AttemptsAnswer:
        """Return the failed and expired attempts of a job, oldest first; none for an unknown job."""
        access = request.user
        if access.key.runs is not None or access.key.kinds is not None:
            await _job(access, served, job_id)
        return wire.AttemptsAnswer(await served.queue.history(job_id))

    @post("/retry", status_code=200, opt=_SUBMIT)
    async def retry(self, request: ApiCall, data: Body[wire.ChangeRequest], served: ServedQueue) -> wire.ChangeAnswer:
        """Make failed and cancelled jobs pending again."""
        return await _change(request.user, data, served.queue.retry)

    @post("/cancel", status_code=200, opt=_SUBMIT)
    async def cancel(self, request: ApiCall, data: Body[wire.ChangeRequest], served: ServedQueue) -> wire.ChangeAnswer:
        """Cancel jobs that are not finished."""
        return await _change(request.user, data, served.queue.cancel)

    @post("/release", status_code=200, opt=_ADMIN)
    async def release(self, request: ApiCall, data: Body[wire.ChangeRequest], served: ServedQueue) -> wire.ChangeAnswer:
        """Take claimed jobs away from their workers."""
        return await _change(request.user, data, served.queue.release)

    @post("/prune", status_code=200, opt=_ADMIN)
    async def prune(self, request: ApiCall, data: Body[wire.ChangeRequest], served: ServedQueue) -> wire.ChangeAnswer:
        """Remove finished jobs for good."""
        return await _change(request.user, data, served.queue.prune)

    @post("/archive", status_code=200, opt=_ADMIN)
    async def archive(self, request: ApiCall, data: Body[wire.ChangeRequest], served: ServedQueue) -> wire.ChangeAnswer:
        """Pack completed jobs into the archive."""
        return await _change(request.user, data, require(served.queue, Archives, _NO_ARCHIVE).archive)

    @post("/payloads", status_code=200, opt=_LOOK_UP)
    async def payloads(
        self, request: ApiCall, data: Body[wire.PayloadsRequest], served: ServedQueue
    ) -> wire.PayloadsAnswer:
        """Return the payloads of jobs that are known by their names."""
        lookup = require(served.queue, PayloadLookup, "finds no payloads.")
        found = await lookup.payloads(data.run, data.names)
        reached = [request.user.reaches_name(data.run, name.kind) for name in data.names]
        return wire.PayloadsAnswer([each if ours else None for each, ours in zip(found, reached, strict=True)])

    @post("/take-over", status_code=200, opt=_ADMIN)
    async def take_over(self, data: Body[wire.TakeOverRequest], served: ServedQueue) -> Submitted:
        """Add jobs of another queue with their state and history."""
        return await require(served.queue, TakesOver, "cannot take over jobs.").take_over(data.carried)


async def _page(access: Access, served: Served, asked: Selection, after: str, limit: int) -> wire.JobsAnswer:
    if limit > served.limits.page:
        raise UsageError(f"A page has at most {served.limits.page:,} jobs, not {limit:,}.")
    return wire.JobsAnswer(await served.queue.jobs(access.selection(asked), after=after, limit=limit))


async def _job(access: Access, served: Served, job_id: str) -> Job:
    found = await served.queue.jobs(Selection(ids=frozenset({job_id})), limit=1)
    if not found or not access.reaches(found[0]):
        raise NotFoundError(f"There is no job {ascii(job_id)[:60]}.")
    return found[0]


async def _change(
    access: Access, data: wire.ChangeRequest, operation: Callable[[Selection], Awaitable[int]]
) -> wire.ChangeAnswer:
    asked = data.where.selection()
    if asked == Selection() and not data.where.everything:
        raise UsageError("The filter is empty, so it selects every job. Set `everything` to true if that is meant.")
    return wire.ChangeAnswer(await operation(access.selection(asked)))
