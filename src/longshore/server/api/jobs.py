"""Jobs: create, look at, change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.params import JSONBody as Body

from longshore.errors import NotFoundError, UsageError
from longshore.extensions.archive import Archives
from longshore.extensions.find import require
from longshore.extensions.payloads import PayloadLookup
from longshore.extensions.transfer import TakesOver
from longshore.job import Attempt, Job, State
from longshore.media.http import wire
from longshore.queue import Selection, Submitted
from longshore.runs.control.bulk_action import BulkAction
from longshore.server.api.filters import FilterBody
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.api.submitted_jobs import SubmitAnswer, submit_each
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE, WRITES
from longshore.server.auth.keys import Scope
from longshore.server.problems import WrongStateError
from longshore.server.served import Served

_READ = {SCOPE: (Scope.READ, Scope.WORK)}
_SUBMIT, _ADMIN = {SCOPE: (Scope.SUBMIT,)}, {SCOPE: (Scope.ADMIN,)}
_SEARCH = {**_READ, WRITES: False}
_LOOK_UP = {SCOPE: (Scope.READ, Scope.WORK, Scope.SUBMIT), WRITES: False}
_NO_ARCHIVE = "has no archive: `longshore prune` removes finished jobs."

_STATES = [state.value for state in State]
_READ_AT_ONCE, _MOST_READ = 500, 5000
"""Jobs read at once, and by one request, to find those that the queue cannot select itself."""


class JobDetail(Job, frozen=True, kw_only=True):
    """A job and its history."""

    history: tuple[Attempt, ...] = ()
    """Its failed and expired attempts, oldest first."""


class JobsPage(msgspec.Struct, frozen=True):
    """A page of jobs."""

    jobs: list[Job]
    next: str | None = None
    """Send it as `after` for the next page, also if this one is empty; null on the last page."""


class SearchRequest(wire.ApiRequest, frozen=True, kw_only=True):
    """A page of jobs, oldest first; `after` is `next` of the page before."""

    where: FilterBody
    after: str = ""
    limit: int = 100


class JobRoutes(Controller):
    """The routes of jobs."""

    path = "/jobs"
    tags = ("jobs",)

    @post("/", status_code=200, opt=_SUBMIT)
    async def submit(self, request: ApiCall, data: Body[wire.SubmitRequest], served: ServedQueue) -> SubmitAnswer:
        """Create jobs, all or none. A job that is there already is a duplicate and is left as it is.

        With `items` the answer says for each job whether it is new, a duplicate, or collides with another payload.
        """
        jobs = [body.job() for body in data.jobs]
        request.user.check_new(jobs)
        await served.kinds.check(jobs)
        if data.items:
            return await submit_each(served, jobs)
        submitted = await served.submit(jobs)
        return SubmitAnswer(submitted.new, submitted.duplicates)

    @get("/", opt=_READ)
    async def page(
        self,
        request: ApiCall,
        served: ServedQueue,
        run: FromQuery[str | None] = None,
        kind: FromQuery[str | None] = None,
        partition: FromQuery[str | None] = None,
        job_state: Annotated[str | None, QueryParameter(name="state", schema_extra={"enum": _STATES})] = None,
        host: FromQuery[str | None] = None,
        error: FromQuery[str | None] = None,
        text: FromQuery[str] = "",
        after: FromQuery[str] = "",
        limit: Annotated[int, QueryParameter(ge=1)] = 100,
    ) -> JobsPage:
        """Return a page of jobs, oldest first. `after` is `next` of the page before.

        `error` is a shell pattern for the last failure, `text` a part of the payload, the names or the failure.
        """
        where = FilterBody(
            run=run,
            kinds=None if kind is None else frozenset({kind}),
            partitions=None if partition is None else frozenset({partition}),
            states=None if job_state is None else frozenset({_state(job_state)}),
            hosts=None if host is None else frozenset({host}),
            error=error,
            text=text,
        )
        return await _page(request.user, served, where, after, limit)

    @post("/search", status_code=200, opt=_SEARCH)
    async def search(self, request: ApiCall, data: Body[SearchRequest], served: ServedQueue) -> JobsPage:
        """Return a page of the selected jobs, oldest first. `after` is `next` of the page before."""
        return await _page(request.user, served, data.where, data.after, data.limit)

    @get("/{job_id:str}", opt=_READ)
    async def job(self, request: ApiCall, job_id: FromPath[str], served: ServedQueue) -> JobDetail:
        """Return one job with its failed and expired attempts, oldest first."""
        job = await _job(request.user, served, job_id)
        return JobDetail(**msgspec.structs.asdict(job), history=tuple(await served.queue.history(job_id)))

    @post("/{job_id:str}/retry", status_code=200, opt=_SUBMIT)
    async def retry_one(self, request: ApiCall, job_id: FromPath[str], served: ServedQueue) -> Job:
        """Make a failed or cancelled job pending again, and return it. 409 if it is in another state."""
        return await _change_one(request.user, served, job_id, BulkAction.RETRY)

    @post("/{job_id:str}/cancel", status_code=200, opt=_SUBMIT)
    async def cancel_one(self, request: ApiCall, job_id: FromPath[str], served: ServedQueue) -> Job:
        """Cancel a job that is not finished, and return it. 409 if it is."""
        return await _change_one(request.user, served, job_id, BulkAction.CANCEL)

    @get("/{job_id:str}/attempts", opt=_READ)
    async def attempts(self, request: ApiCall, job_id: FromPath[str], served: ServedQueue) -> wire.AttemptsAnswer:
        """Return the failed and expired attempts of a job, oldest first; none for an unknown job."""
        access = request.user
        if access.is_limited:
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
        """Remove finished jobs for good, with their records."""

        async def prune(selection: Selection) -> int:
            return await served.traces.prune(served.queue, selection)

        return await _change(request.user, data, prune)

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

    @post("/ids", status_code=200, opt=_LOOK_UP)
    async def ids(self, request: ApiCall, data: Body[wire.PayloadsRequest], served: ServedQueue) -> wire.IdsAnswer:
        """Return the ids of jobs that are known by their names."""
        found = await require(served.queue, PayloadLookup, "finds no jobs by name.").job_ids(data.run, data.names)
        reached = [request.user.reaches_name(data.run, name.kind) for name in data.names]
        return wire.IdsAnswer([each if ours else None for each, ours in zip(found, reached, strict=True)])

    @post("/take-over", status_code=200, opt=_ADMIN)
    async def take_over(self, data: Body[wire.TakeOverRequest], served: ServedQueue) -> Submitted:
        """Add jobs of another queue with their state and history."""
        return await require(served.queue, TakesOver, "cannot take over jobs.").take_over(data.carried)


async def _page(access: Access, served: Served, where: FilterBody, after: str, limit: int) -> JobsPage:
    if limit > served.limits.page:
        raise UsageError(f"A page has at most {served.limits.page:,} jobs, not {limit:,}.")
    wanted = where.filter(access)
    found: list[Job] = []
    read = 0
    while True:
        size = limit - len(found) if wanted.queue_suffices else _READ_AT_ONCE
        page = await served.queue.jobs(wanted.selection, after=after, limit=size)
        for job in page:
            if wanted.accepts(job):
                found.append(job)
            after = job.id
            if len(found) == limit:
                return JobsPage(found, after if limit else None)
        read += len(page)
        if len(page) < size or not limit:
            return JobsPage(found)
        if read >= _MOST_READ:
            return JobsPage(found, after)


def _state(text: str) -> State:
    if text not in _STATES:
        raise UsageError(f"There is no state {ascii(text)[:40]}. The states are: {', '.join(_STATES)}.")
    return State(text)


async def _change_one(access: Access, served: Served, job_id: str, action: BulkAction) -> Job:
    await _job(access, served, job_id)
    changed = await action.call(served.queue, Selection(ids=frozenset({job_id}), states=action.possible))
    job = await _job(access, served, job_id)
    if not changed:
        raise WrongStateError(f"The job is {job.state}: nothing to {action}.")
    return job


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
