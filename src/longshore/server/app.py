"""The application: routes, authentication, errors, and what begins and ends with the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.middleware import DefineMiddleware

from longshore.errors import LongshoreError
from longshore.server import openapi
from longshore.server.api.bulk_actions import BulkActionRoutes
from longshore.server.api.bundles import BundleRoutes
from longshore.server.api.health import HealthRoutes
from longshore.server.api.hosts import HostRoutes
from longshore.server.api.jobs import JobRoutes
from longshore.server.api.kinds import KindRoutes
from longshore.server.api.leases import LeaseRoutes
from longshore.server.api.metrics import AutoscaleRoutes, MetricsRoutes
from longshore.server.api.pages import PageRoutes
from longshore.server.api.records import RecordRoutes
from longshore.server.api.request import StrictRequest
from longshore.server.api.runs import RunRoutes
from longshore.server.api.state import StateRoutes
from longshore.server.api.tasks.routes import TaskRoutes
from longshore.server.api.tasks.task_workers import TaskWorkers
from longshore.server.api.workers import WorkerRoutes
from longshore.server.auth.guard import FailedAttempts, KeyAuthentication, needs_scope
from longshore.server.idempotency import Idempotency, KeptAnswers
from longshore.server.live.live_reader import LiveReader
from longshore.server.pages.errors import by_face
from longshore.server.pages.routes import page_routes
from longshore.server.problems import UNREADABLE, on_any_error, on_http_error, on_longshore_error, on_unreadable
from longshore.server.request_checks import RequestChecks
from longshore.server.served import Served


def application(served: Served, names: Iterable[str] = ()) -> Litestar:
    """Return the ASGI application that serves one queue. `names` are the host names under which it is reached."""

    def provide() -> Served:
        return served

    failed, reader = FailedAttempts(served.clock), LiveReader(served.clock)
    live = {"reader": Provide(lambda: reader, sync_to_thread=False)}
    api = Router(
        "/api/v1",
        route_handlers=[
            HealthRoutes,
            RunRoutes,
            JobRoutes,
            BulkActionRoutes,
            LeaseRoutes,
            WorkerRoutes,
            HostRoutes,
            KindRoutes,
            StateRoutes,
            RecordRoutes,
            PageRoutes,
            BundleRoutes,
            AutoscaleRoutes,
        ],
        dependencies=live,
    )
    workers = TaskWorkers(served)
    tasks = Router(
        "/api",
        route_handlers=[TaskRoutes],
        dependencies={"workers": Provide(lambda: workers, sync_to_thread=False)},
    )
    metrics = Router("/", route_handlers=[MetricsRoutes], dependencies=live)
    return Litestar(
        [api, tasks, metrics, page_routes(served, reader, failed)],
        dependencies={"served": Provide(provide, sync_to_thread=False)},
        middleware=[
            DefineMiddleware(RequestChecks, names=tuple(names)),
            DefineMiddleware(KeyAuthentication, served=served, failed=failed),
            DefineMiddleware(Idempotency, answers=KeptAnswers(served.clock), body_bytes=served.limits.body_bytes),
        ],
        guards=[needs_scope, openapi.refuse_unknown_parameters],
        exception_handlers={
            LongshoreError: by_face(on_longshore_error),
            HTTPException: by_face(on_http_error),
            **dict.fromkeys(UNREADABLE, on_unreadable),
            Exception: by_face(on_any_error),
        },
        request_class=StrictRequest,
        lifespan=[_lifespan(served, reader)],
        openapi_config=openapi.config(),
        request_max_body_size=served.limits.body_bytes,
    )


def _lifespan(served: Served, reader: LiveReader) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        del app
        tasks = [
            asyncio.create_task(served.working.limits.keep()),
            asyncio.create_task(_stop_bulk_actions(served)),
            asyncio.create_task(reader.keep()),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await served.bulk_actions.close()
            await served.working.limits.tell()
            await served.traces.close()
            await served.queue.close()

    return lifespan


async def _stop_bulk_actions(served: Served) -> None:
    """Stop bulk actions as soon as the server begins to stop: requests that wait for one get its answer."""
    await served.closing.wait()
    served.bulk_actions.stop_all()
