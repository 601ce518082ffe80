"""All routes of the web page."""

from __future__ import annotations

from litestar import Router
from litestar.di import Provide

from longshore.server.auth.guard import FailedAttempts
from longshore.server.live.live_reader import LiveReader
from longshore.server.pages.actions import ActionRoutes
from longshore.server.pages.assets import AssetRoutes
from longshore.server.pages.login import LoginRoutes
from longshore.server.pages.looking import LookingRoutes
from longshore.server.pages.record_figures import RecordFigures
from longshore.server.pages.reference import ReferenceRoutes
from longshore.server.pages.stream import LiveStreams, live_route
from longshore.server.pages.submitting import SubmitRoutes
from longshore.server.pages.views import Live, LiveViews
from longshore.server.served import Served

_MOST_BYTES = 2 * 1024 * 1024


def page_routes(served: Served, reader: LiveReader, failed: FailedAttempts) -> Router:
    """Return the routes of the web page for one queue."""
    views = LiveViews(served, reader)
    live = Live(reader, views, served, RecordFigures(served))
    streams = live_route(LiveStreams(served, reader, views))

    def provide_live() -> Live:
        return live

    def provide_failed() -> FailedAttempts:
        return failed

    return Router(
        "/",
        route_handlers=[
            AssetRoutes,
            LoginRoutes,
            LookingRoutes,
            ActionRoutes,
            SubmitRoutes,
            ReferenceRoutes,
            streams,
        ],
        dependencies={
            "live": Provide(provide_live, sync_to_thread=False),
            "failed": Provide(provide_failed, sync_to_thread=False),
        },
        request_max_body_size=_MOST_BYTES,
        include_in_schema=False,
    )
