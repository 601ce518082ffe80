"""Kinds of jobs, and the payloads that they take."""

from __future__ import annotations

import msgspec
from litestar import Controller, get
from litestar.params import FromPath

from longshore.errors import NotFoundError
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.kind_checks import KindBody
from longshore.server.served import Served

_ANY = {SCOPE: (Scope.READ, Scope.WORK, Scope.SUBMIT)}


class KindsAnswer(msgspec.Struct, frozen=True):
    kinds: list[KindBody]


class KindRoutes(Controller):
    """The routes of kinds."""

    path = "/kinds"
    tags = ("kinds",)

    @get("/", opt=_ANY)
    async def kinds(self, request: ApiCall, served: ServedQueue) -> KindsAnswer:
        """Return the kinds that have jobs or a handler, in order."""
        return KindsAnswer(await _kinds(request.user, served))

    @get("/{kind:str}", opt=_ANY)
    async def kind(self, request: ApiCall, kind: FromPath[str], served: ServedQueue) -> KindBody:
        """Return one kind."""
        for each in await _kinds(request.user, served):
            if each.kind == kind:
                return each
        raise NotFoundError(f"There is no kind {ascii(kind)[:60]}. A worker that handles it makes it known.")


async def _kinds(access: Access, served: Served) -> list[KindBody]:
    schemas = await served.kinds.schemas()
    known = {count.kind for count in await served.queue.stats() if access.reaches(count)}
    known |= {kind for kind in schemas if access.reaches_kind(kind)}
    return [KindBody(kind, schemas.get(kind)) for kind in sorted(known)]
