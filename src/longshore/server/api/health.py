"""Health: whether the process lives, and whether its queue answers. Both need no key."""

from __future__ import annotations

from litestar import Controller, Response, get

from longshore.errors import QueueError
from longshore.server.api.request import ServedQueue
from longshore.server.auth.guard import OPEN


class HealthRoutes(Controller):
    """The routes for load balancers and supervisors."""

    path = "/health"
    tags = ("health",)
    opt = {OPEN: True}  # noqa: RUF012 (Litestar declares it so)

    @get("/live")
    async def live(self) -> dict[str, str]:
        """Return that the process answers."""
        return {"status": "live"}

    @get("/ready")
    async def ready(self, served: ServedQueue) -> Response[dict[str, str]]:
        """Return whether the queue answers; 503 if it does not."""
        try:
            await served.queue.stats("")
        except QueueError:
            return Response({"status": "unavailable"}, status_code=503)
        return Response({"status": "ready"})
