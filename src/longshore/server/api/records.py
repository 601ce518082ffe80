"""Records: sent by workers before they settle, streamed to people."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec
from litestar import Controller, get, post
from litestar.params import FromQuery
from litestar.params import JSONBody as Body
from litestar.response import Stream

from longshore.errors import NotFoundError, UsageError
from longshore.extensions.record_store import RecordCounts
from longshore.job import Job, State
from longshore.media.http import wire
from longshore.queue import Selection
from longshore.runs.records.run_records import RunRecords
from longshore.scrape.records import Emitted, Rejected
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.auth.leases import LostLeaseError
from longshore.server.served import Served
from longshore.stored import encode

_LINES = "application/x-ndjson"
_READ, _WORK, _ADMIN = {SCOPE: (Scope.READ,)}, {SCOPE: (Scope.WORK,)}, {SCOPE: (Scope.ADMIN,)}
_CHUNK_BYTES = 64 * 1024
_MOST_COUNT = 2**63 - 1
_encode = msgspec.json.Encoder().encode


class RecordRoutes(Controller):
    """The routes of records."""

    path = "/records"
    tags = ("traces",)

    @post("/", status_code=200, opt=_WORK)
    async def keep(self, request: ApiCall, data: Body[wire.RecordsRequest], served: ServedQueue) -> wire.RecordsAnswer:
        """Store the records of attempts that are about to be settled as completed. They count with the settlement."""
        refused: dict[int, str] = {}
        attempts: dict[int, tuple[Job, Emitted]] = {}
        for number, each in enumerate(data.attempts):
            try:
                job = served.tokens.read(each.lease, request.user.key.id).job
                attempts[number] = job, emitted_of(each.records, each.rejected)
            except UsageError as error:
                refused[number] = str(error)
        causes = await served.traces.keep_records(served.queue, list(attempts.values()))
        for number, (job, _) in attempts.items():
            if (cause := causes.get((job.id, job.epoch))) is not None:
                refused[number] = str(cause)
        return wire.RecordsAnswer([refused.get(number) for number in range(len(data.attempts))])

    @post("/revised", status_code=200, opt=_ADMIN)
    async def revise(self, data: Body[wire.RevisedRequest], served: ServedQueue) -> wire.RecordsAnswer:
        """Replace the records of completed jobs with those of a new parse of their pages."""
        ids = frozenset(each.job for each in data.attempts)
        if len(ids) > served.limits.page:
            raise UsageError(f"One request may have the records of {served.limits.page:,} jobs.")
        found = {job.id: job for job in await served.queue.jobs(Selection(ids=ids), limit=len(ids) or 1)}
        attempts = []
        for each in data.attempts:
            job = found.get(each.job)
            if job is None or (job.state, job.epoch) != (State.COMPLETED, each.epoch):
                raise LostLeaseError(f"Job {each.job[:60]} was not completed by the attempt {each.epoch}.")
            attempts.append((job, emitted_of(each.records, each.rejected)))
        causes = await served.traces.revise_records(attempts)
        return wire.RecordsAnswer([_text(causes.get((job.id, job.epoch))) for job, _ in attempts])

    @get("/", opt=_READ)
    async def records(
        self, request: ApiCall, served: ServedQueue, run: FromQuery[str], kind: FromQuery[str | None] = None
    ) -> Stream:
        """Stream the records of a run, one JSON object a line; with `kind`, only those of that kind."""
        return Stream(_lines(_of_run(request.user, served, run), kind, served, request.user.key.id), media_type=_LINES)

    @get("/counts", opt=_READ)
    async def counts(self, request: ApiCall, served: ServedQueue, run: FromQuery[str]) -> RecordCounts:
        """Return how many records of a run were kept, and how many were rejected for which reason."""
        return await _of_run(request.user, served, run).tally()


def emitted_of(records: Sequence[wire.RecordBody], rejected: Sequence[wire.RejectedBody]) -> Emitted:
    """Return records that were sent. Raise `UsageError` for one that could not be read again."""
    for kind in {kind for kind, _ in records}:
        if not kind.strip() or not kind.isprintable():
            raise UsageError(f"A record cannot be of the kind {ascii(kind)[:50]}. Name it in a word.")
    if not all(0 < count <= _MOST_COUNT for _, _, count in rejected):
        raise UsageError("The number of rejected records must be above 0.")
    encoded = encode(msgspec.Raw(_encode(records)), "A record")
    return Emitted(msgspec.Raw(encoded), tuple(Rejected(*each) for each in rejected))


def _of_run(access: Access, served: Served, run: str) -> RunRecords:
    if not access.reaches_run(run):
        raise NotFoundError(f"There is no run {ascii(run)[:60]} for this key.")
    return served.traces.records(served.queue, run, access.kinds)


async def _lines(records: RunRecords, kind: str | None, served: Served, key_id: str) -> AsyncIterator[bytes]:
    chunk = bytearray()
    async for record in records.records(kind):
        chunk += _encode(record)
        chunk += b"\n"
        if len(chunk) >= _CHUNK_BYTES:
            if served.keys.valid(key_id) is None:
                return  # the key was revoked in the middle
            yield bytes(chunk)
            chunk.clear()
    # An empty line says that this was the end, and not that the server stopped.
    yield bytes(chunk) + b"\n"


def _text(error: Exception | None) -> str | None:
    return None if error is None else str(error)
