"""The request as the routes see it: authenticated, with the reach of its key."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.di import NamedDependency

from longshore.errors import UsageError
from longshore.server.auth.access import Access
from longshore.server.auth.keys import ApiKey
from longshore.server.served import Served
from longshore.system.first_of import first_of

_MOST_CONTAINERS = 2_000_000
"""Lists and objects of one body. Each takes 60 bytes and more, and all other requests wait until they are made."""


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


class StrictRequest(Request[Access, ApiKey, State]):
    """A request whose JSON is decoded into the type of the route, strictly: a text is no number."""

    async def json(self) -> Any:
        """Return the body. Raise `msgspec.MsgspecError`, or what else a body raises that is not JSON."""
        field, body = self.route_handler.parsed_data_field, await self.body()
        if len(body) > _MOST_CONTAINERS and body.count(b"[") + body.count(b"{") > _MOST_CONTAINERS:
            raise UsageError(f"The body has more than {_MOST_CONTAINERS:,} lists and objects. Send fewer at once.")
        return _decoder(Any if field is None else field.annotation).decode(body)


ApiCall: TypeAlias = Request[Access, ApiKey, State]
ServedQueue: TypeAlias = NamedDependency[Served]
"""The value that the application hands to every route that has a parameter `served`."""


async def gone(request: ApiCall, served: Served) -> None:
    """Return when the client has left, or when the server begins to stop."""
    await first_of(disconnected(request), served.closing.wait())


async def disconnected(request: ApiCall) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


MOST_FIELDS = 2000


async def form_of(request: ApiCall) -> list[tuple[str, str]]:
    """Return the fields of a form, in order. Raise `UsageError` if they cannot be read."""
    try:
        body = (await request.body()).decode("utf-8")
        return parse_qsl(body, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise UsageError("The form cannot be read.") from error
