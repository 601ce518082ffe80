"""Health: whether the process lives, whether its queue answers, and how it all is. The first two need no key."""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import Controller, Response, get
from litestar.openapi import ResponseSpec

from longshore.errors import LongshoreError, QueueError
from longshore.extensions.find import find
from longshore.extensions.presence import WorkerRegistry
from longshore.queue import Count, totals
from longshore.runs.watch.active_workers import active_among, kinds_without_worker
from longshore.server.api.request import ServedQueue
from longshore.server.auth.guard import OPEN, SCOPE
from longshore.server.auth.keys import Scope
from longshore.url import mask_urls

_ADMIN = {SCOPE: (Scope.ADMIN,)}


class HealthStatus(StrEnum):
    """How the server is, in one word."""

    OK = "ok"
    DEGRADED = "degraded"
    """The queue answers, and jobs wait that no worker takes."""
    UNAVAILABLE = "unavailable"
    """The queue does not answer."""


class ProbeAnswer(msgspec.Struct, frozen=True):
    status: str


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the server and its queue."""

    status: HealthStatus
    version: str
    medium: str
    read_only: bool
    queue_seconds: float | None
    """How long the queue took to answer; null if it did not."""
    count: Count | None = None
    """All jobs by state."""
    workers: int | None = None
    """The workers that are alive; null if the queue does not know."""
    kinds_without_worker: tuple[str, ...] = ()
    bulk_actions: int = 0
    """Those that run now."""
    detail: str = ""


class HealthRoutes(Controller):
    """The routes for load balancers, supervisors and people."""

    path = "/health"
    tags = ("health",)

    @get("/live", opt={OPEN: True})
    async def live(self) -> ProbeAnswer:
        """Return that the process answers."""
        return ProbeAnswer("live")

    @get(
        "/ready",
        opt={OPEN: True},
        responses={503: ResponseSpec(ProbeAnswer, description="The queue does not answer")},
    )
    async def ready(self, served: ServedQueue) -> Response[ProbeAnswer]:
        """Return whether the queue answers; 503 if it does not."""
        try:
            await served.queue.stats("")
        except QueueError:
            return Response(ProbeAnswer("unavailable"), status_code=503)
        return Response(ProbeAnswer("ready"))

    @get("/", opt=_ADMIN, responses={503: ResponseSpec(HealthAnswer, description="The queue does not answer")})
    async def health(self, served: ServedQueue) -> Response[HealthAnswer]:
        """Return how the server, its queue and its workers are; 503 if the queue does not answer."""
        about: dict[str, Any] = {
            "version": version("longshore"),
            "medium": served.queue.traits.name,
            "read_only": served.read_only,
            "bulk_actions": served.bulk_actions.running,
        }
        began = served.clock.monotonic()
        try:
            counts = await served.queue.stats()
            seconds = served.clock.monotonic() - began
            registry = find(served.queue, WorkerRegistry)
            present = None if registry is None else await registry.present_workers()
        except LongshoreError as error:
            problem = HealthAnswer(
                status=HealthStatus.UNAVAILABLE, queue_seconds=None, detail=mask_urls(str(error)), **about
            )
            return Response(problem, status_code=503)
        active = active_among(present)
        waiting = kinds_without_worker(active, counts)
        unattended = active.workers == 0 and totals(counts).pending > 0
        return Response(
            HealthAnswer(
                status=HealthStatus.DEGRADED if waiting or unattended else HealthStatus.OK,
                queue_seconds=seconds,
                count=totals(counts),
                workers=active.workers,
                kinds_without_worker=waiting,
                detail="Jobs wait, and no worker is there." if unattended else "",
                **about,
            )
        )
