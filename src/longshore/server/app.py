"""The application: routes, authentication, errors, and what begins and ends with the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.middleware import DefineMiddleware
from litestar.openapi import OpenAPIConfig

from longshore.errors import LongshoreError
from longshore.server.api.health import HealthRoutes
from longshore.server.api.jobs import JobRoutes
from longshore.server.api.leases import LeaseRoutes
from longshore.server.api.request import StrictRequest
from longshore.server.api.state import StateRoutes
from longshore.server.auth.guard import FailedAttempts, KeyAuthentication, needs_scope
from longshore.server.problems import UNREADABLE, on_any_error, on_http_error, on_longshore_error, on_unreadable
from longshore.server.request_checks import RequestChecks
from longshore.server.served import Served


def application(served: Served, names: Iterable[str] = ()) -> Litestar:
    """Return the ASGI application that serves one queue. `names` are the host names under which it is reached."""

    def provide() -> Served:
        return served

    api = Router("/api/v1", route_handlers=[HealthRoutes, JobRoutes, LeaseRoutes, StateRoutes])
    return Litestar(
        [api],
        dependencies={"served": Provide(provide, sync_to_thread=False)},
        middleware=[
            DefineMiddleware(RequestChecks, names=tuple(names)),
            DefineMiddleware(KeyAuthentication, served=served, failed=FailedAttempts(served.clock)),
        ],
        guards=[needs_scope],
        exception_handlers={
            LongshoreError: on_longshore_error,
            HTTPException: on_http_error,
            **dict.fromkeys(UNREADABLE, on_unreadable),
            Exception: on_any_error,
        },
        request_class=StrictRequest,
        lifespan=[_lifespan(served)],
        openapi_config=OpenAPIConfig(title="Longshore", version="1", path="/api/v1/schema", render_plugins=()),
        request_max_body_size=served.limits.body_bytes,
    )


def _lifespan(served: Served) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        del app
        counting = asyncio.create_task(served.working.limits.keep())
        try:
            yield
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
            await served.working.limits.tell()
            await served.queue.close()

    return lifespan
