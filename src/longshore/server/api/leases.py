"""Claims, settlements, renewals, and waiting for work: what a worker calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import msgspec
from litestar import Controller, post
from litestar.exceptions import NotAuthorizedException
from litestar.params import JSONBody as Body

from longshore.errors import LongshoreError, QueueUnavailableError, UsageError
from longshore.extensions.find import find, require
from longshore.extensions.presence import WorkerRegistry
from longshore.extensions.shared_state import SharedState
from longshore.extensions.worker_orders import WorkerOrder, order_for
from longshore.job import Job, State
from longshore.lease import Lease, Want, WorkerId
from longshore.media.http import wire
from longshore.outcome import Completed, Released, Settlement
from longshore.queue import Reaped, Selection
from longshore.server.api.outcome_bounds import check_outcome
from longshore.server.api.records import emitted_of
from longshore.server.api.request import ApiCall, ServedQueue, gone
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.auth.leases import LostLeaseError
from longshore.server.served import Served
from longshore.server.waiting_room import Turn
from longshore.system.first_of import first_of

_WORK = {SCOPE: (Scope.WORK,)}
_PRESENT = {SCOPE: (Scope.WORK, Scope.SUBMIT)}


class LeaseRoutes(Controller):
    """The routes of workers."""

    tags = ("work",)

    @post("/claims", status_code=200, opt=_WORK)
    async def claim(self, request: ApiCall, data: Body[wire.ClaimRequest], served: ServedQueue) -> wire.ClaimAnswer:
        """Claim jobs. With `wait_seconds` the answer waits until there is one."""
        return wire.ClaimAnswer(await claimed(request, data, served))

    @post("/settlements", status_code=200, opt=_WORK)
    async def settle(self, request: ApiCall, data: Body[wire.SettleRequest], served: ServedQueue) -> wire.SettleAnswer:
        """Write outcomes, each guarded by its lease; with `claim`, claim the next jobs in the same call."""
        access = request.user
        settlements, records = [], []
        sent_bytes = len(await request.body())
        for each in data.settlements:
            check_outcome(each.outcome, sent_bytes, served, access)
            outcome = wire.outcome_of(each.outcome)
            lease = served.tokens.read(each.lease, access.key.id)
            if isinstance(outcome, Completed):
                access.check_follow_on(outcome.jobs)
                if each.records:
                    records.append((lease.job, emitted_of(each.records, [])))
            settlements.append(
                Settlement(lease, outcome, each.seconds, came_from=each.came_from, handler_version=each.handler_version)
            )
        for cause in (await served.traces.keep_records(served.queue, records)).values():
            raise UsageError(f"Records cannot be stored, so nothing was settled: {cause}")
        used = [each.lease for each in data.settlements], access.key.id
        settling = asyncio.ensure_future(_settle(settlements, served, used))
        if data.claim is None:
            return wire.SettleAnswer(await settling)
        return await _settle_and_claim(request, settling, data.claim, served)

    @post("/renewals", status_code=200, opt=_PRESENT)
    async def renew(self, request: ApiCall, data: Body[wire.RenewRequest], served: ServedQueue) -> wire.RenewAnswer:
        """Extend all leases of a worker, and say which it holds."""
        if not request.user.may(Scope.WORK) and (data.info is None or data.info.submitting is None):
            raise UsageError("A key without the scope 'work' may only say that it submits jobs.")
        worker, lease = (
            _holder(data.worker, served, request.user),
            lease_length(data.lease_seconds, served, request.user),
        )
        if data.info is None:
            held = await served.working.renew(worker, lease)
        else:
            registry = require(served.queue, WorkerRegistry, "does not know which workers are alive.")
            held = await registry.register(worker, lease, data.info)
        mine = {(each.job_id, each.epoch) for each in held}
        return wire.RenewAnswer(
            [wire.HeldLease(job=job, epoch=epoch) for job, epoch in sorted(mine)],
            [token for token in data.leases if not _is_held(token, mine, worker, served, request.user)],
            await _order(data.worker, served),
        )

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
        turn = await _wait(request, data.want, served, wire.seconds(timeout))
        if isinstance(turn, Turn):
            turn.end(found=True)  # its claim comes with another request, if it comes
        return wire.WaitAnswer(bool(turn), served.clock.monotonic() - began)

    @post("/reap", status_code=200, opt=_WORK)
    async def reap(self, served: ServedQueue) -> Reaped:
        """Take back the jobs of dead workers."""
        return await served.queue.reap()


async def _settle(settlements: list[Settlement], served: Served, used: tuple[list[str], str]) -> list[bool]:
    accepted = await served.working.settle(settlements)
    served.traces.settled(settlements, accepted)
    served.tokens.forget(*used)
    return accepted


async def _settle_and_claim(
    request: ApiCall, settling: asyncio.Future[list[bool]], asked: wire.ClaimRequest, served: Served
) -> wire.SettleAnswer:
    """Claim while the settlement is written, so that the two writes wait for the disk together."""
    try:
        jobs = await claimed(request, asked, served, beside=settling)
    except BaseException:
        await asyncio.wait([settling])
        raise
    try:
        return wire.SettleAnswer(await settling, jobs)
    except QueueUnavailableError:
        raise  # the worker repeats the claim under its id, and gets these jobs
    except LongshoreError:
        served.claim_answers.forget(_holder(asked.worker, served, request.user))
        leases = [served.tokens.read(each.lease, request.user.key.id) for each in jobs]
        await served.working.settle([Settlement(lease, Released()) for lease in leases])
        raise


async def claimed(
    request: ApiCall, asked: wire.ClaimRequest, served: Served, *, beside: asyncio.Future[list[bool]] | None = None
) -> list[wire.ClaimedJob]:
    """Claim jobs within the reach of the key, and return them with their tokens; wait for one if that is asked.

    `beside` is a settlement of the same call, which is being written: if there is no job now, it may add some.
    """
    if asked.limit > served.limits.claim:
        raise UsageError(f"One claim may ask for {served.limits.claim:,} jobs, not {asked.limit:,}.")
    access, key = request.user, request.user.key.id

    async def claim() -> list[wire.ClaimedJob]:
        leases = [] if beside is None else await _claim(asked, served, access)
        if not leases:
            if beside is not None:
                await asyncio.wait([beside])
            leases = await _claim_or_wait(request, asked, served, access)
        return [wire.ClaimedJob(each.job, served.tokens.make(each, key), each.deadline) for each in leases]

    return await served.claim_answers.once(_holder(asked.worker, served, access), asked.claim_id, claim)


async def _claim_or_wait(request: ApiCall, asked: wire.ClaimRequest, served: Served, access: Access) -> list[Lease]:
    until = served.clock.monotonic() + min(asked.wait_seconds, served.limits.wait_seconds)
    turn: Turn | bool = False
    while True:
        leases: list[Lease] = []
        try:
            leases = await _claim(asked, served, access)
        finally:
            if isinstance(turn, Turn):
                turn.end(found=bool(leases))
        left = until - served.clock.monotonic()
        if leases or left <= 0:
            return leases
        turn = await _wait(request, asked, served, wire.seconds(left))
        if not turn:
            return leases
        if served.keys.valid(access.key.id) is None:
            if isinstance(turn, Turn):
                turn.end(found=True)  # the job is for another poll
            raise NotAuthorizedException("The key was revoked.")


async def _claim(asked: wire.ClaimRequest, served: Served, access: Access) -> list[Lease]:
    lease_length(asked.lease_seconds, served, access)
    leases: list[Lease] = []
    for want in access.wants(asked.want(_holder(asked.worker, served, access))):
        if want.limit > len(leases):
            left = msgspec.structs.replace(want, limit=want.limit - len(leases))
            leases += await served.working.claim(left)
    return leases


async def _wait(request: ApiCall, asked: wire.ClaimRequest, served: Served, timeout: timedelta) -> Turn | bool:
    """Return whether there may be a job; with time to wait, the turn to claim it."""
    access = request.user
    wants = access.wants(asked.want(_holder(asked.worker, served, access)))
    if not wants:
        await first_of(served.clock.sleep(timeout.total_seconds()), gone(request, served))
        return False
    if not timeout:
        return any([await served.working.wait(want, timeout) for want in wants])
    ready = first_of(_ready(served, wants), served.clock.sleep(timeout.total_seconds()), gone(request, served))
    return await ready or False


async def _ready(served: Served, wants: Sequence[Want]) -> Turn | bool:
    """Return when there may be a job for one of `wants`: the turn to claim it."""
    first, *others = [served.waiting.wait(want) for want in wants]
    return await first_of(first, *others) or True


def _is_held(token: str, held: set[tuple[str, int]], worker: WorkerId, served: Served, access: Access) -> bool:
    try:
        lease = served.tokens.read(token, access.key.id)
    except LostLeaseError:
        return False
    return lease.worker == worker and (lease.job.id, lease.epoch) in held


async def _order(body: wire.WorkerBody, served: Served) -> WorkerOrder | None:
    state = find(served.queue, SharedState)
    return None if state is None else await order_for(state, body.label, body.worker().public_incarnation)


def _holder(body: wire.WorkerBody, served: Served, access: Access) -> WorkerId:
    return served.tokens.holder(body.worker(), access.key.id)


def lease_length(seconds: float, served: Served, access: Access) -> timedelta:
    """Return the length of a lease that a client asks for. Raise `UsageError` if it is too long."""
    if seconds > served.limits.lease_seconds and not access.may(Scope.ADMIN):
        raise UsageError(f"A lease may last {served.limits.lease_seconds:,.0f} seconds, not {seconds:,.0f}.")
    return wire.seconds(seconds)


def _no_lease(job_id: str, worker: WorkerId) -> Lease:
    return Lease(Job(id=job_id, run="", kind="", key="", payload={}), worker, 0.0)
