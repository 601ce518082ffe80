"""Tasks: the routes of a plain worker, in any language. A task is a job with a `type` and `params`.

Each claim gets a holder of its own, made here and known only to the lease token. So a worker that is started again
under the same name can neither settle nor keep alive what it held before: the task comes back when its lease expires.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from litestar import Controller, Response, get, post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.openapi import ResponseSpec
from litestar.params import FromPath
from litestar.params import JSONBody as Body
from litestar.status_codes import HTTP_200_OK, HTTP_201_CREATED, HTTP_204_NO_CONTENT, HTTP_410_GONE

from longshore.errors import Failure, NotFoundError, QueueError
from longshore.extensions.find import require
from longshore.extensions.payloads import PayloadLookup
from longshore.handlers.handler import DEFAULT_BACKOFF, retry_delay
from longshore.handlers.result import reported_failure
from longshore.job import Job, JobName, State
from longshore.lease import Lease
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement
from longshore.queue import Selection
from longshore.server.api.leases import claimed, lease_length
from longshore.server.api.outcome_bounds import check_size
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.api.tasks.bodies import (
    ClaimedTask,
    HealthBody,
    NewTask,
    RenewedTask,
    SettledTask,
    TaskBody,
    TaskClaim,
    TaskError,
    TaskRelease,
    TaskRenewal,
    TaskResult,
)
from longshore.server.api.tasks.task_workers import TaskWorkers
from longshore.server.auth.guard import OPEN, SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.auth.leases import LostLeaseError
from longshore.server.served import Served

KnownWorkers: TypeAlias = NamedDependency[TaskWorkers]
"""The value that the application hands to every route that has a parameter `workers`."""
_READ = {SCOPE: (Scope.READ, Scope.WORK)}
_SUBMIT, _WORK = {SCOPE: (Scope.SUBMIT,)}, {SCOPE: (Scope.WORK,)}
_THERE = {HTTP_200_OK: ResponseSpec(TaskBody, description="The task with this key, which was there already")}
_NONE = {HTTP_204_NO_CONTENT: ResponseSpec(None, description="There is no task now")}


class TaskRoutes(Controller):
    """The routes of plain workers."""

    tags = ("tasks",)

    @get("/health", opt={OPEN: True})
    async def health(self, served: ServedQueue) -> Response[HealthBody]:
        """Return whether the server and its queue answer; 503 if the queue does not."""
        try:
            await served.queue.stats("")
        except QueueError:
            return Response(HealthBody("unavailable"), status_code=503)
        return Response(HealthBody("healthy"))

    @post("/tasks", status_code=HTTP_201_CREATED, opt=_SUBMIT, responses=_THERE)
    async def create(self, request: ApiCall, data: Body[NewTask], served: ServedQueue) -> Response[TaskBody]:
        """Create a task. Without `key` every call creates one; with `key`, only the first call does."""
        job = data.job()
        request.user.check_new([job])
        await served.kinds.check([job])
        submitted = await served.submit([job])
        lookup = require(served.queue, PayloadLookup, "finds no jobs by name.")
        (task_id,) = await lookup.job_ids(job.run, [JobName(job.kind, job.key)])
        if task_id is None:
            raise NotFoundError("The task was removed just after it was created.")
        status = HTTP_201_CREATED if submitted.new else HTTP_200_OK
        return Response(TaskBody.of(await _job(request, served, task_id)), status_code=status)

    @get("/tasks/{task_id:str}", opt=_READ)
    async def task(self, request: ApiCall, task_id: FromPath[str], served: ServedQueue) -> TaskBody:
        """Return one task, with its result or its last error."""
        return TaskBody.of(await _job(request, served, task_id))

    @post("/tasks/claim", status_code=HTTP_200_OK, opt=_WORK, responses=_NONE)
    async def claim(
        self, request: ApiCall, data: Body[TaskClaim], served: ServedQueue, workers: KnownWorkers
    ) -> Response[ClaimedTask | None]:
        """Claim a task; 204 if there is none, 410 if the worker is asked to end.

        With `wait_seconds` the answer waits until there is one.
        """
        if await workers.order(data.worker_id) is not None:
            raise HTTPException("Someone has asked this worker to end.", status_code=HTTP_410_GONE)
        await workers.seen(data.worker_id, request.user.key.id, data.types)
        await workers.reap()
        found = await claimed(request, data.claim(), served)
        if not found:
            return Response(None, status_code=HTTP_204_NO_CONTENT)
        job, token = found[0].job, found[0].lease
        return Response(ClaimedTask(job.id, job.kind, job.payload, token, data.lease_seconds, job.attempt))

    @post("/tasks/{task_id:str}/renew", status_code=HTTP_200_OK, opt=_WORK)
    async def renew(
        self,
        request: ApiCall,
        task_id: FromPath[str],
        data: Body[TaskRenewal],
        served: ServedQueue,
        workers: KnownWorkers,
    ) -> RenewedTask:
        """Extend the lease of a task, at least every third of its length; 409 if it is lost: stop working on it."""
        lease = _lease(request, served, task_id, data.lease)
        length = lease_length(data.lease_seconds, served, request.user)
        if lease.held not in await served.working.renew(lease.worker, length):
            raise _lost(task_id)
        await workers.renewed(lease.worker.label, request.user.key.id)
        return RenewedTask(task_id, data.lease_seconds, await workers.order(lease.worker.label))

    @post("/tasks/{task_id:str}/complete", status_code=HTTP_200_OK, opt=_WORK)
    async def complete(
        self, request: ApiCall, task_id: FromPath[str], data: Body[TaskResult], served: ServedQueue
    ) -> SettledTask:
        """Complete a task; 409 if its lease is lost. A result with `"success": false` is a failure."""
        lease = _lease(request, served, task_id, data.lease)
        result = data.result
        check_size("result", result, served)
        if isinstance(result, dict) and result.get("success") is False:
            return await _settle(served, lease, _failed(lease, reported_failure(result)), data.seconds)
        return await _settle(served, lease, Completed(result), data.seconds)

    @post("/tasks/{task_id:str}/fail", status_code=HTTP_200_OK, opt=_WORK)
    async def fail(
        self, request: ApiCall, task_id: FromPath[str], data: Body[TaskError], served: ServedQueue
    ) -> SettledTask:
        """Fail a task; 409 if its lease is lost. It is tried again if that may help and attempts are left."""
        lease = _lease(request, served, task_id, data.lease)
        check_size("failure", data, served)
        return await _settle(served, lease, _failed(lease, data.failure()), data.seconds)

    @post("/tasks/{task_id:str}/release", status_code=HTTP_200_OK, opt=_WORK)
    async def release(
        self, request: ApiCall, task_id: FromPath[str], data: Body[TaskRelease], served: ServedQueue
    ) -> SettledTask:
        """Give a task back: it is pending again, and the attempt does not count; 409 if its lease is lost."""
        return await _settle(served, _lease(request, served, task_id, data.lease), Released())


async def _job(request: ApiCall, served: Served, task_id: str) -> Job:
    found = await served.queue.jobs(Selection(ids=frozenset({task_id})), limit=1)
    if not found or not request.user.reaches(found[0]):
        raise NotFoundError(f"There is no task {ascii(task_id)[:60]}.")
    return found[0]


def _lease(request: ApiCall, served: Served, task_id: str, token: str) -> Lease:
    if not token:
        raise LostLeaseError("Send the `lease` that the claim of the task returned.")
    lease = served.tokens.read(token, request.user.key.id)
    if lease.job.id != task_id:
        raise LostLeaseError("The lease is that of another task.")
    return lease


def _failed(lease: Lease, failure: Failure) -> Failed:
    job = lease.job
    again = failure.retryable and job.attempt < job.max_attempts
    return Failed(failure, retry_delay(DEFAULT_BACKOFF, job.attempt) if again else timedelta(0))


async def _settle(served: Served, lease: Lease, outcome: Outcome, seconds: float | None = None) -> SettledTask:
    (accepted,) = await served.working.settle([Settlement(lease, outcome, seconds)])
    if not accepted:
        raise _lost(lease.job.id)
    job = lease.job
    match outcome:
        case Completed():
            status = State.COMPLETED
        case Failed(failure) if not failure.retryable or job.attempt >= job.max_attempts:
            status = State.FAILED
        case _:
            status = State.PENDING
    return SettledTask(job.id, status)


def _lost(task_id: str) -> LostLeaseError:
    return LostLeaseError(
        f"The lease of task {ascii(task_id)[:60]} is lost: it was settled, cancelled, or went to another worker."
    )
