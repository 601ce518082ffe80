"""The queue behind an HTTP API; `longshore.queue.Queue` documents the methods.

Authority: the server. It holds no lease for this process but what its medium holds, so a server that is killed and
started again goes on with the same leases.

Repeats: a claim that got no answer is repeated under the same id, and the server returns the jobs that it leased. A
settlement is never repeated here: who settles asks the queue which of them were accepted (`settlement.repair`).

Lease tokens: a claim returns a token for each job, and only the token settles the job. A lease that was made without a
claim (for a claim whose answer was lost, or by a process that continues the work of another) has none; its token is
asked for with the worker's incarnation, which only the worker knows.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import msgspec

from longshore.errors import QueueUnavailableError, UsageError
from longshore.extensions.archive import Month
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.extensions.rejected import RejectedFiles
from longshore.extensions.shared_state import Entries, StateEntry
from longshore.extensions.transfer import Carried
from longshore.job import Attempt, Job, JobName, NewJob
from longshore.lease import Held, Lease, Want, WorkerId, lease_seconds
from longshore.media.http import known_leases, wire
from longshore.media.http.connection import ApiConnection
from longshore.media.http.traces import HttpTraces
from longshore.outcome import Settlement
from longshore.queue import Count, Reaped, Selection, Submitted, Traits
from longshore.stored import BIGGEST, JsonObject, check_texts, check_whole, encode

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MOST_KNOWN = 10_000
_known: dict[tuple[str, str], str] = {}
"""The workers of this process: their incarnations by label and public incarnation, which is all that a server shows."""


class HttpQueue:
    """A queue behind a server."""

    def __init__(self, connection: ApiConnection, capabilities: wire.Capabilities) -> None:
        self._api = connection
        self._limits = capabilities.limits
        self._unanswered: dict[WorkerId, tuple[Want, str]] = {}
        """The last claim of each worker that got no answer, and its id."""
        self.traits: Traits = msgspec.structs.replace(
            capabilities.traits, name="http", spans_processes=True, spans_machines=True, keeps_limits=True
        )

    @classmethod
    async def open(cls, connection: ApiConnection) -> HttpQueue:
        """Ask the server what its queue can do. Raise at once, without retries, if it does not answer."""
        try:
            return cls(connection, await connection.get("/capabilities", wire.Capabilities))
        except BaseException:
            await connection.close()
            raise

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        if not jobs:
            return Submitted(0, 0)
        return await self._api.post(
            "/jobs", wire.SubmitRequest(jobs=[wire.NewJobBody.of(job) for job in jobs]), Submitted
        )

    async def claim(self, want: Want) -> list[Lease]:
        _remember(want.worker)
        want = msgspec.structs.replace(want, limit=min(want.limit, self._limits.claim))
        claim_id = self._claim_id(want)
        request = wire.ClaimRequest.of(want, claim_id)
        with self._noting_unanswered(want, claim_id):
            try:
                answer = await self._api.post("/claims", request, wire.ClaimAnswer)
            except QueueUnavailableError:
                # Perhaps only the connection was cut. The same id: jobs that were claimed without an answer come now.
                answer = await self._api.post("/claims", request, wire.ClaimAnswer)
        return _leases(answer.jobs, want.worker)

    def _claim_id(self, want: Want) -> str:
        """Return the id of a claim: that of the one before, if it got no answer and this one wants the same."""
        before, claim_id = self._unanswered.pop(want.worker, (None, ""))
        return claim_id if before == want else secrets.token_hex(8)

    @contextmanager
    def _noting_unanswered(self, want: Want, claim_id: str) -> Iterator[None]:
        try:
            yield
        except QueueUnavailableError:
            self._unanswered[want.worker] = want, claim_id
            raise

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        return await self._renew(worker, lease, None)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return (await self._settle(settlements, None)).accepted if settlements else []

    async def settle_and_claim(self, settlements: Sequence[Settlement], want: Want) -> tuple[list[bool], list[Lease]]:
        """Settle and then claim in one call, for callers that do one job at a time."""
        _remember(want.worker)
        claim_id = self._claim_id(want)
        with self._noting_unanswered(want, claim_id):
            answer = await self._settle(settlements, wire.ClaimRequest.of(want, claim_id))
        return answer.accepted, _leases(answer.jobs, want.worker)

    async def _settle(self, settlements: Sequence[Settlement], claim: wire.ClaimRequest | None) -> wire.SettleAnswer:
        tokens = await self._tokens([each.lease for each in settlements])
        bodies = [
            wire.SettlementBody(
                lease=token,
                outcome=wire.outcome_body(each.outcome),
                seconds=each.seconds,
                came_from=each.came_from,
                handler_version=each.handler_version,
            )
            for each, token in zip(settlements, tokens, strict=True)
        ]
        request = wire.SettleRequest(settlements=bodies, claim=claim)
        answer = await self._api.post("/settlements", request, wire.SettleAnswer)
        known_leases.forget(each.lease.job for each in settlements)
        return answer

    async def reap(self) -> Reaped:
        return await self._api.post("/reap", wire.NothingRequest(), Reaped)

    async def stats(self, run: str | None = None) -> list[Count]:
        check_texts((run or "",), "The name of a run")
        params = None if run is None else {"run": run}
        return (await self._api.get("/stats", wire.StatsAnswer, params=params)).counts

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        check_whole(limit, 0, BIGGEST, "The size of a page")
        where = wire.SelectionBody.of(selection)
        found: list[Job] = []
        while True:
            wanted = min(limit - len(found), self._limits.page)
            request = wire.JobsRequest(where=where, after=after, limit=wanted)
            page = (await self._api.post("/jobs/search", request, wire.JobsAnswer)).jobs
            found += page
            if len(page) < wanted or len(found) >= limit:
                return found
            after = page[-1].id

    async def history(self, job_id: str) -> list[Attempt]:
        if not _ID.fullmatch(job_id):
            return []  # no job has this id, and it would not be one part of a path
        return (await self._api.get(f"/jobs/{job_id}/attempts", wire.AttemptsAnswer)).attempts

    async def retry(self, selection: Selection) -> int:
        return await self._change("retry", selection)

    async def cancel(self, selection: Selection) -> int:
        return await self._change("cancel", selection)

    async def release(self, selection: Selection) -> int:
        return await self._change("release", selection)

    async def prune(self, selection: Selection) -> int:
        return await self._change("prune", selection)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        left = timeout.total_seconds()
        while True:
            asked = min(left, self._limits.wait_seconds)
            request = wire.WaitRequest(want=wire.ClaimRequest.of(want), timeout_seconds=asked)
            answer = await self._api.post("/wait", request, wire.WaitAnswer, wait_seconds=asked)
            left -= max(answer.waited_seconds, 0.0)
            if answer.ready or left <= 0:
                return answer.ready

    async def close(self) -> None:
        await self._api.close()

    # The extensions

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        encode(info, "The information about a worker")
        return await self._renew(worker, lease, info)

    async def deregister(self, worker: WorkerId) -> None:
        await self._api.post("/workers/leave", wire.SignOffRequest(worker=wire.WorkerBody.of(worker)), msgspec.Raw)

    async def present_workers(self) -> list[PresentWorker]:
        found = (await self._api.get("/workers", wire.WorkersAnswer)).workers
        return [
            PresentWorker(
                WorkerId(each.label, _known.get((each.label, each.incarnation), each.incarnation)),
                each.info,
                each.unseen_seconds,
            )
            for each in found
        ]

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        return await self._api.post("/state/read", wire.ReadRequest(namespace=namespace, names=names), Entries)

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        for entry in entries:
            encode(entry.value, "The value of a shared entry")
        if len({entry.name for entry in entries}) < len(entries):
            raise UsageError("Two entries of one call have the same name")
        request = wire.SwapRequest(namespace=namespace, entries=list(entries))
        return (await self._api.post("/state/swap", request, wire.SwapAnswer)).versions

    async def payloads(self, run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        if not names:
            return []
        request = wire.PayloadsRequest(run=run, names=list(names))
        return (await self._api.post("/jobs/payloads", request, wire.PayloadsAnswer)).payloads

    async def job_ids(self, run: str, names: Sequence[JobName]) -> list[str | None]:
        if not names:
            return []
        request = wire.PayloadsRequest(run=run, names=list(names))
        return (await self._api.post("/jobs/ids", request, wire.IdsAnswer)).ids

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        for each in carried:
            encode(each.job.payload, "A job's payload")
            encode(each.job.result, "A job's result")
        return await self._api.post("/jobs/take-over", wire.TakeOverRequest(carried=list(carried)), Submitted)

    async def archive(self, selection: Selection) -> int:
        return await self._change("archive", selection)

    async def archived(self) -> list[Month]:
        return (await self._api.get("/archive", wire.ArchiveAnswer)).months

    async def forget_history(self) -> None:
        await self._api.post("/archive/forget-history", wire.NothingRequest(), msgspec.Raw)

    async def traces(self) -> HttpTraces:
        return HttpTraces(self._api, self._limits)

    async def rejected(self, run: str | None = None) -> RejectedFiles:
        return await self._api.get("/rejected", RejectedFiles, params=None if run is None else {"run": run})

    async def claim_success_rate(self) -> float:
        return (await self._api.get("/claim-success-rate", wire.RateAnswer)).rate

    async def _renew(self, worker: WorkerId, lease: timedelta, info: WorkerInfo | None) -> list[Held]:
        _remember(worker)
        request = wire.RenewRequest(worker=wire.WorkerBody.of(worker), lease_seconds=lease_seconds(lease), info=info)
        answer = await self._api.post("/renewals", request, wire.RenewAnswer)
        return [Held(each.job, each.epoch) for each in answer.held]

    async def _change(self, operation: str, selection: Selection) -> int:
        request = wire.ChangeRequest(where=wire.SelectionBody.of(selection))
        return (await self._api.post(f"/jobs/{operation}", request, wire.ChangeAnswer)).changed

    async def _tokens(self, leases: Sequence[Lease]) -> list[str]:
        """Return the token of each lease; ask the server for those that came without one."""
        tokens: dict[tuple[WorkerId, Held], str] = {}
        missing: dict[WorkerId, list[Held]] = {}
        for lease in leases:
            token = known_leases.token_of(lease.job, lease.worker)
            if token is not None:
                tokens[lease.worker, lease.held] = token
            else:
                missing.setdefault(lease.worker, []).append(lease.held)
        for worker, held in missing.items():
            bodies = [wire.HeldLease(job=each.job_id, epoch=each.epoch) for each in held]
            request = wire.LeaseRequest(worker=wire.WorkerBody.of(worker), held=bodies)
            answer = await self._api.post("/leases", request, wire.LeaseAnswer)
            tokens |= {(worker, each): token for each, token in zip(held, answer.leases, strict=True)}
        return [tokens[lease.worker, lease.held] for lease in leases]


def _leases(jobs: Sequence[wire.ClaimedJob], worker: WorkerId) -> list[Lease]:
    for each in jobs:
        known_leases.remember(each.job, worker, each.lease)
    return [Lease(each.job, worker, each.deadline) for each in jobs]


def _remember(worker: WorkerId) -> None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[worker.label, worker.public_incarnation] = worker.incarnation
