"""The port on which a worker or a fleet offers its metrics and its health, to Prometheus, Kubernetes and people.

It asks for no key, so it is bounded: other users of the machine must not use up the files of a worker, and pages in a
browser of this machine must not read it under a name of theirs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import msgspec
import structlog

from longshore.errors import SettingsError
from longshore.observe.health_report import HealthReport
from longshore.observe.metrics import CONTENT_TYPE, check_metrics_installed

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, Response


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

    from longshore.observe.bounded_server import BoundedServer

    check_metrics_installed()

    answers: dict[str, Callable[[], Response]] = {
        "/metrics": lambda: web.Response(body=observed.metrics(), headers={"Content-Type": CONTENT_TYPE}),
        "/health": lambda: _whole(observed.health()),
        "/health/live": lambda: _answer({"status": "live"}),
        "/health/ready": lambda: _ready(observed.health()),
    }
    only_local = _is_local(host)

    async def handle(request: BaseRequest) -> Response:
        if only_local and not _is_local(_name(request.headers.get("Host", ""))):
            return web.Response(status=400, text="The Host header names another host.\n")
        if (answer := answers.get(request.path)) is None:
            return web.Response(status=404, text="There are /metrics, /health, /health/live and /health/ready.\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        return answer()

    runner = web.ServerRunner(BoundedServer(handle), handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise SettingsError(
                f"Metrics cannot be offered on {host}, port {port}: {error.strerror or error}. Another process may use "
                "the port: give another one (LONGSHORE_METRICS_PORT)."
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _name(host_header: str) -> str:
    try:
        return (urlsplit(f"//{host_header}").hostname or "").lower()
    except ValueError:
        return ""


def _whole(report: HealthReport) -> Response:
    return _answer(report, ok=report.healthy)


def _ready(report: HealthReport) -> Response:
    if report.ready:
        return _answer({"status": "ready"})
    return _answer({"status": "unavailable", "detail": report.detail}, ok=False)


def _answer(body: object, *, ok: bool = True) -> Response:
    from aiohttp.web import Response

    return Response(body=msgspec.json.encode(body), status=200 if ok else 503, content_type="application/json")
