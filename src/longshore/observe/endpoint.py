"""The port on which a worker or a fleet offers its metrics and its health, to Prometheus, Kubernetes and people."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec
import structlog

from longshore.errors import SettingsError
from longshore.observe.health_report import HealthReport
from longshore.observe.metrics import CONTENT_TYPE, check_metrics_installed

if TYPE_CHECKING:
    from aiohttp.web import Response


class Observed(Protocol):
    """A process as the endpoint shows it. Both methods answer at once, from what the process knows."""

    def metrics(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""

    def health(self) -> HealthReport:
        """Return the health of the process."""


@asynccontextmanager
async def offered(port: int | None, host: str, observed: Observed) -> AsyncIterator[None]:
    """Within the block, answer on the port, and log which one it is. Without a port, do nothing."""
    if port is None:
        yield
        return
    async with observed_at(port, host, observed) as bound:
        shown = f"[{host}]" if ":" in host else host
        structlog.get_logger().info(f"Metrics: http://{shown}:{bound}/metrics")
        yield


@asynccontextmanager
async def observed_at(port: int, host: str, observed: Observed) -> AsyncIterator[int]:
    """Within the block, answer on this port; yield its number (another one if `port` is 0).

    Raise `SettingsError` if the port cannot be had, or the library of the metrics is not installed.
    """
    from aiohttp import web

    check_metrics_installed()

    def route(path: str, answer: Callable[[], Response]) -> web.RouteDef:
        async def handle(request: web.Request) -> web.Response:
            del request
            return answer()

        return web.get(path, handle)

    application = web.Application()
    application.add_routes(
        [
            route("/metrics", lambda: web.Response(body=observed.metrics(), headers={"Content-Type": CONTENT_TYPE})),
            route("/health", lambda: _whole(observed.health())),
            route("/health/live", lambda: _answer({"status": "live"})),
            route("/health/ready", lambda: _ready(observed.health())),
        ]
    )
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, shutdown_timeout=1.0).start()
        except OSError as error:
            raise SettingsError(
                f"Metrics cannot be offered on {host}, port {port}: {error.strerror or error}. Another process may use "
                "the port: give another one (LONGSHORE_METRICS_PORT)."
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _whole(report: HealthReport) -> Response:
    return _answer(report, ok=report.healthy)


def _ready(report: HealthReport) -> Response:
    if report.ready:
        return _answer({"status": "ready"})
    return _answer({"status": "unavailable", "detail": report.detail}, ok=False)


def _answer(body: object, *, ok: bool = True) -> Response:
    from aiohttp.web import Response

    return Response(body=msgspec.json.encode(body), status=200 if ok else 503, content_type="application/json")
