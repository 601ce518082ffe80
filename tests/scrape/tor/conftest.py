"""A private Tor network for the session, and a site that answers with the exit its visitor came from."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.services.needing import needed
from tests.services.tor import TorNetwork, exit_of, find_programs, private_network

from longshore.scrape.proxies.connection import connector_for
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.tor import Tor

Visit = Callable[[str], Awaitable[str]]


def _needs_tor() -> None:
    """Without Tor the tests are skipped on a laptop and fail in CI."""
    with needed():
        find_programs()


@pytest.fixture(scope="session")
def program() -> str:
    """The Tor of this machine."""
    _needs_tor()
    return find_programs()[0]


@pytest.fixture(scope="session")
def network(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorNetwork]:
    """One network for all processes of the test run."""
    folder, owner = tmp_path_factory.getbasetemp(), os.getpid()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder, owner = folder.parent, os.getppid()
    with private_network(folder / "tor-network", owner) as running:
        yield running


@pytest.fixture
async def tor(network: TorNetwork, tmp_path: Path) -> AsyncIterator[Tor]:
    """A Tor in the private network, not started yet."""
    one = Tor(tmp_path / "tor", torrc=Path(network.torrc))
    yield one
    await one.close()


@pytest.fixture
async def site(network: TorNetwork) -> AsyncIterator[str]:
    """The URL of a site that answers with the exit its visitor came from."""

    async def tell(request: web.Request) -> web.Response:
        assert request.transport is not None
        _, port = request.transport.get_extra_info("peername")
        return web.Response(text=exit_of(network, port))

    application = web.Application()
    application.router.add_get("/", tell)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


@pytest.fixture
def visit(site: str) -> Visit:
    """Visit the site through a proxy over a new connection, and return the exit the site saw."""

    async def through(proxy: str) -> str:
        connector = connector_for(Proxy(proxy))
        async with aiohttp.ClientSession(connector=connector) as session, session.get(site) as answer:
            return await answer.text()

    return through
