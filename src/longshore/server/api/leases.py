"""Claims, settlements, renewals, and waiting for work: what a worker calls."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from litestar import Controller, post
from litestar.params import JSONBody as Body

from longshore.errors import UsageError
from longshore.extensions.find import require
from longshore.extensions.presence import WorkerRegistry
from longshore.job import Job, State
from longshore.lease import Lease, WorkerId
from longshore.media.http import wire
from longshore.outcome import Completed, Settlement
from longshore.queue import Reaped, Selection
from longshore.server.api.request import ApiCall, ServedQueue, gone
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.served import Served
from longshore.system.first_of import first_of

_WORK = {SCOPE: (Scope.WORK,)}
_PRESENT = {SCOPE: (Scope.WORK, Scope.SUBMIT)}


class LeaseRoutes(Controller):
    """The routes of workers."""

    tags = ("work",)

    @post("/claims", status_code=200, opt=_WORK)
    async def claim(self, request: ApiCall, data: Body[wire.ClaimRequest], served: ServedQueue) -> wire.ClaimAnswer:
        """Claim jobs. With `wait_seconds` the answer waits until there is one."""
        return wire.ClaimAnswer(await _claimed(request, data, served))

    @post("/settlements", status_code=200, opt=_WORK)
    async def settle(self, request: ApiCall, data: Body[wire.SettleRequest], served: ServedQueue) -> wire.SettleAnswer:
        """Write outcomes, each guarded by its lease; with `claim`, claim the next jobs in the same call."""
        access = request.user
        settlements = []
        for each in data.settlements:
            outcome = wire.outcome_of(each.outcome)
            if isinstance(outcome, Completed):
                access.check_follow_on(outcome.jobs)
            lease = served.tokens.read(each.lease, access.key.id)
            settlements.append(
                Settlement(lease, outcome, each.seconds, came_from=each.came_from, handler_version=each.handler_version)
            )
        accepted = await served.working.settle(settlements)
        jobs = [] if data.claim is None else await _claimed(request, data.claim, served)
        return wire.SettleAnswer(accepted, jobs)

    @post("/renewals", status_code=200, opt=_PRESENT)
    async def renew(self, request: ApiCall, data: Body[wire.RenewRequest], served: ServedQueue) -> wire.RenewAnswer:
        """Extend all leases of a worker, and say which it holds."""
        if not request.user.may(Scope.WORK) and (data.info is None or data.info.submitting is None):
            raise UsageError("A key without the scope 'work' may only say that it submits jobs.")
        worker, lease = _holder(data.worker, served, request.user), _lease(data.lease_seconds, served, request.user)
        if data.info is None:
            held = await served.working.renew(worker, lease)
        else:
            registry = require(served.queue, WorkerRegistry, "does not know which workers are alive.")
            held = await registry.register(worker, lease, data.info)
        return wire.RenewAnswer([wire.HeldLease(job=each.job_id, epoch=each.epoch) for each in held])

    @post("/leases", status_code=200, opt=_WORK)
    async def recover(self, request: ApiCall, data: Body[wire.LeaseRequest], served: ServedQueue) -> wire.LeaseAnswer:
        """Return the tokens of leases whose claim got no answer."""
        access = request.user
        worker = _holder(data.worker, served, access)
        ids = frozenset(each.job for each in data.held)
        found = {job.id: job for job in await served.queue.jobs(Selection(ids=ids), limit=len(ids))}
        tokens = []
        for each in data.held:
            job = found.get(each.job)
            if job is None or not access.reaches(job) or (job.state, job.epoch) != (State.CLAIMED, each.epoch):
                # The settlement of this token is refused: no job is claimed at epoch 0.
                tokens.append(served.tokens.make(_no_lease(each.job, worker), access.key.id))
            else:
                tokens.append(served.tokens.make(Lease(job, worker, 0.0), access.key.id))
        return wire.LeaseAnswer(tokens)

    @post("/wait", status_code=200, opt=_WORK)
    async def wait(self, request: ApiCall, data: Body[wire.WaitRequest], served: ServedQueue) -> wire.WaitAnswer:
        """Answer as soon as there may be a job to claim, or after the timeout."""
        timeout = min(data.timeout_seconds, served.limits.wait_seconds)
        began = served.clock.monotonic()
        ready = await _wait(request, data.want, served, wire.seconds(timeout))
        return wire.WaitAnswer(ready, served.clock.monotonic() - began)

    @post("/reap", status_code=200, opt=_WORK)
    async def reap(self, served: ServedQueue) -> Reaped:
        """Take back the jobs of dead workers."""
        return await served.queue.reap()


async def _claimed(request: ApiCall, asked: wire.ClaimRequest, served: Served) -> list[wire.ClaimedJob]:
    if asked.limit > served.limits.claim:
        raise UsageError(f"One claim may ask for {served.limits.claim:,} jobs, not {asked.limit:,}.")
    access = request.user
    leases = await _claim(asked, served, access)
    if not leases and asked.wait_seconds > 0:
        timeout = min(asked.wait_seconds, served.limits.wait_seconds)
        if await _wait(request, asked, served, wire.seconds(timeout)):
            leases = await _claim(asked, served, access)
    key = access.key.id
    return [wire.ClaimedJob(each.job, served.tokens.make(each, key), each.deadline) for each in leases]


async def _claim(asked: wire.ClaimRequest, served: Served, access: Access) -> list[Lease]:
    _lease(asked.lease_seconds, served, access)
    leases: list[Lease] = []
    for want in access.wants(asked.want(_holder(asked.worker, served, access))):
        if want.limit > len(leases):
            left = msgspec.structs.replace(want, limit=want.limit - len(leases))
            leases += await served.working.claim(left)
    return leases


async def _wait(request: ApiCall, asked: wire.ClaimRequest, served: Served, timeout: timedelta) -> bool:
    access = request.user
    wants = access.wants(asked.want(_holder(asked.worker, served, access)))
    if not wants:
        await first_of(served.clock.sleep(timeout.total_seconds()), gone(request, served))
        return False
    waits = [served.working.wait(want, timeout) for want in wants]
    ready = await first_of(waits[0], *waits[1:], gone(request, served))
    # Of several runs, one of the others may have a job: the claim shows it.
    return bool(ready) or (ready is None and len(waits) > 1)


def _holder(body: wire.WorkerBody, served: Served, access: Access) -> WorkerId:
    return served.tokens.holder(body.worker(), access.key.id)


def _lease(seconds: float, served: Served, access: Access) -> timedelta:
    if seconds > served.limits.lease_seconds and not access.may(Scope.ADMIN):
        raise UsageError(f"A lease may last {served.limits.lease_seconds:,.0f} seconds, not {seconds:,.0f}.")
    return wire.seconds(seconds)


def _no_lease(job_id: str, worker: WorkerId) -> Lease:
    return Lease(Job(id=job_id, run="", kind="", key="", payload={}), worker, 0.0)
