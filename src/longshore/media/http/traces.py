"""Records, pages and failure bundles at the server; `longshore.extensions.traces.TraceKeeper` documents the methods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec

from longshore.errors import UsageError
from longshore.extensions.record_store import AttemptName, NewRecords, Record, RecordCounts, RefusedRecordsError
from longshore.extensions.traces import SCREENSHOT, BundleEntry, BundleFiles, StoredPage
from longshore.job import Job
from longshore.media.http import wire
from longshore.media.http.connection import ApiConnection
from longshore.media.http.known_leases import token_of

_REQUEST_BYTES = 8 * 1024 * 1024
"""The size of a request with several records or pages; a larger one is sent alone."""
_MARGIN = 1024 * 1024
"""The part of a request that is no record or page, at most."""
_encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")


class _ExchangeFile(msgspec.Struct, frozen=True):
    file: str = ""


class _BundleJson(msgspec.Struct, frozen=True):
    exchanges: list[_ExchangeFile] = []


class HttpTraces:
    """The traces of workers at one server."""

    def __init__(self, connection: ApiConnection, limits: wire.Limits) -> None:
        self._api = connection
        self._most_bytes = limits.body_bytes - _MARGIN
        self._page = limits.page

    def new_records(self, *, revising: bool = False) -> HttpRecords:
        return HttpRecords(self._api, self._most_bytes, self._page, revising=revising)

    async def missing_contents(self, digests: Sequence[str]) -> list[str]:
        request = wire.MissingRequest(contents=list(digests))
        return (await self._api.post("/pages/missing", request, wire.MissingAnswer)).missing

    async def put_contents(self, contents: Sequence[bytes]) -> None:
        # Four bytes for three, in base64.
        for part in _parts([(each, len(each) * 4 // 3) for each in contents], len(contents)):
            if len(part) == 1 and len(part[0]) * 4 // 3 > self._most_bytes:
                raise UsageError(f"A page of {len(part[0]):,} bytes is too large for the server.")
            await self._api.post("/pages/contents", wire.ContentsRequest(contents=part), wire.ContentsAnswer)

    async def put_pages(self, job: Job, pages: Sequence[StoredPage]) -> None:
        await self._api.post("/pages", wire.PagesRequest(lease=_token(job), pages=list(pages)), wire.KeptAnswer)

    async def pages(self, job: Job) -> list[StoredPage]:
        return (await self._api.get(f"/pages/{quote(job.id, safe='')}", wire.PagesAnswer)).pages

    async def content(self, job: Job, digest: str) -> bytes | None:
        return await self._api.download(f"/pages/{quote(job.id, safe='')}/{quote(digest, safe='')}")

    async def put_bundle(self, job: Job, files: BundleFiles) -> bool:
        request = wire.BundleRequest(
            lease=_token(job), bundle=files.bundle, bodies=files.bodies, screenshot=files.screenshot
        )
        return (await self._api.post("/bundles", request, wire.KeptAnswer)).kept

    async def bundles(self, run: str | None = None) -> list[BundleEntry]:
        params = None if run is None else {"run": run}
        return (await self._api.get("/bundles", wire.BundlesAnswer, params=params)).bundles

    async def bundle(self, name: str) -> BundleFiles:
        path = f"/bundles/{quote(name, safe='')}"
        entry = await self._api.get(path, BundleEntry)
        content = await self._api.download(f"{path}/files/{entry.files[0]}") or b""
        named = [each.file for each in msgspec.json.decode(content, type=_BundleJson).exchanges]
        bodies = [await self._api.download(f"{path}/files/{quote(each, safe='')}") if each else b"" for each in named]
        screenshot = await self._api.download(f"{path}/files/{SCREENSHOT}") if entry.has_screenshot else b""
        return BundleFiles(
            bundle=msgspec.Raw(content), bodies=[each or b"" for each in bodies], screenshot=screenshot or b""
        )

    async def records(self, run: str, kind: str | None = None) -> AsyncIterator[Record]:
        params = {"run": run} | ({} if kind is None else {"kind": kind})
        async for record in self._api.lines("/records", Record, params):
            yield record

    async def tally(self, run: str) -> RecordCounts:
        return await self._api.get("/records/counts", RecordCounts, params={"run": run})


class HttpRecords:
    """The records of one process on their way to the server; see `longshore.extensions.traces.KeptRecords`."""

    def __init__(self, connection: ApiConnection, most_bytes: int, most_jobs: int, *, revising: bool) -> None:
        self._api = connection
        self._most_bytes = most_bytes
        self._most_jobs = most_jobs
        self._revising = revising
        self._rows: list[tuple[Job, NewRecords]] = []
        self._refused: dict[AttemptName, Exception] = {}
        self._flushing = asyncio.Lock()

    def put(self, job: Job, emitted: NewRecords) -> None:
        self._rows.append((job, emitted))

    def settled(self, job_id: str, epoch: int) -> None:
        """Do nothing: the server knows which settlements it has accepted."""

    async def flush(self) -> None:
        async with self._flushing:
            rows, self._rows = self._rows, []
            parts = list(_parts([(row, len(row[1].encoded)) for row in rows], self._most_jobs))
            while parts:
                try:
                    await self._send(parts[0])
                except BaseException:
                    self._rows[:0] = [row for part in parts for row in part]
                    raise
                parts.pop(0)
            refused, self._refused = self._refused, {}
            if refused:
                raise RefusedRecordsError(refused)

    async def _send(self, rows: Sequence[tuple[Job, NewRecords]]) -> None:
        attempts = []
        for job, emitted in rows:
            try:
                attempts.append((job, self._body(job, emitted)))
            except UsageError as error:
                self._refused[job.id, job.epoch] = error
        if not attempts:
            return
        request = msgspec.Raw(b'{"attempts":[' + b",".join(body for _, body in attempts) + b"]}")
        path = "/records/revised" if self._revising else "/records"
        answer = await self._api.post(path, request, wire.RecordsAnswer)
        for (job, _), cause in zip(attempts, answer.refused, strict=True):
            if cause is not None:
                self._refused[job.id, job.epoch] = UsageError(cause)

    def _body(self, job: Job, emitted: NewRecords) -> bytes:
        if len(emitted.encoded) > self._most_bytes:
            raise UsageError(f"{len(emitted.encoded):,} bytes of one attempt are too many for the server.")
        named = {"job": job.id, "epoch": job.epoch} if self._revising else {"lease": _token(job)}
        # As `wire.AttemptRecordsBody` or `wire.RevisedBody`; the records are JSON already.
        return _encode({**named, "rejected": emitted.rejected, "records": emitted.encoded})

    async def close(self) -> None:
        await self.flush()


def _token(job: Job) -> str:
    token = token_of(job)
    if token is None:
        raise UsageError(f"This process has not claimed job {job.id}.")
    return token


def _parts(items: Sequence[tuple[_T, int]], most: int) -> Iterator[list[_T]]:
    """Yield the items in parts that fit into one request each, of at most `most` items."""
    part: list[_T] = []
    size = 0
    for item, weight in items:
        if part and (size + weight > _REQUEST_BYTES or len(part) >= most):
            yield part
            part, size = [], 0
        part.append(item)
        size += weight
    if part:
        yield part
