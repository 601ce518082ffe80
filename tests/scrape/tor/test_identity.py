"""Identities: a site cannot link two sessions."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec
from tests.services.tor import EXITS, TorNetwork

from longshore.scrape.proxies.connection import connector_for
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.tor import Tor
from longshore.scrape.tor.control import TorControl
from longshore.scrape.tor.identity import Identities

WORKER = """
import asyncio, json, sys
from pathlib import Path
import aiohttp
from longshore.scrape.proxies.connection import SOCKS_ERRORS, connector_for
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.tor import Tor

async def visit(proxy, site):
    async with aiohttp.ClientSession(connector=connector_for(Proxy(proxy))) as session:
        async with session.get(site) as answer:
            return await answer.text()

async def main(folder, torrc, site):
    tor = Tor(Path(folder), torrc=Path(torrc))
    seen, broken = [], 0
    while len(seen) < 20:
        try:
            seen.append(await visit(await tor.proxy("shop"), site))
        except SOCKS_ERRORS as error:  # circuits do break, now and then
            broken += 1
            if broken > 5:
                raise
        await tor.new_identity("shop")
    endpoint = await tor.start()
    print(json.dumps({"seen": seen, "ports": [endpoint.socks_port, endpoint.control_port], "cookie": endpoint.cookie}))
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    await tor.close()

asyncio.run(main(*sys.argv[1:]))
"""


class Told(msgspec.Struct):
    seen: list[str]
    ports: list[int]
    cookie: str


async def test_two_workers_have_a_tor_each_and_come_out_in_several_places(
    network: TorNetwork, tmp_path: Path, site: str
) -> None:
    """D3: over twenty new identities, each worker comes out of at least two exits.

    Tor draws the exit. Of three that are used equally, twenty visits go through one alone once in a billion runs.
    """
    command = [sys.executable, "-c", WORKER, str(tmp_path / "tor"), network.torrc, site]
    workers = [await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE) for _ in range(2)]
    told = []
    try:
        for worker in workers:
            assert worker.stdout is not None
            told.append(msgspec.json.decode(await worker.stdout.readline(), type=Told))
    finally:
        # Only now: both must run while they report their ports and folders. A line on its input ends a worker.
        for worker in workers:
            await worker.communicate(b"\n")
    assert [worker.returncode for worker in workers] == [0, 0]
    for one in told:
        assert len(one.seen) == 20
        assert set(one.seen) <= set(EXITS)
        assert len(set(one.seen)) >= 2
    assert len({port for one in told for port in one.ports}) == 4
    assert told[0].cookie != told[1].cookie


async def circuit(tor: Tor, proxy: str, site: str) -> str:
    """Visit the site through a proxy and return the circuit that was used."""
    endpoint = await tor.start()
    async with aiohttp.ClientSession(connector=connector_for(Proxy(proxy))) as session:
        async with session.get(site) as answer:
            assert await answer.text() in EXITS
        # The connection stays open, so its stream can be inspected.
        async with await TorControl.open(endpoint.host, endpoint.control_port, cookie=Path(endpoint.cookie)) as control:
            status = await control.ask_for("stream-status")
    _, state, circuit, target = status.split()
    assert (state, target) == ("SUCCEEDED", urlsplit(site).netloc)
    return circuit


async def test_a_session_keeps_its_circuit_and_another_has_its_own(tor: Tor, site: str) -> None:
    first = await circuit(tor, await tor.proxy("one"), site)
    other = await circuit(tor, await tor.proxy("other"), site)
    again = await circuit(tor, await tor.proxy("one"), site)
    assert again == first
    assert other != first


async def test_a_new_identity_of_one_session_disturbs_no_other(tor: Tor, site: str) -> None:
    one, other = [await circuit(tor, await tor.proxy(name), site) for name in ("one", "other")]
    await tor.new_identity("one")
    assert await circuit(tor, await tor.proxy("one"), site) not in {one, other}
    assert await circuit(tor, await tor.proxy("other"), site) == other


async def test_what_cannot_log_in_gets_new_identities_as_often_as_tor_allows(tor: Tor, site: str) -> None:
    session, plain = await tor.proxy("one"), await tor.plain_proxy()
    assert urlsplit(plain).username is None
    circuits = [await circuit(tor, plain, site), await circuit(tor, plain, site)]
    assert circuits[0] == circuits[1]
    # The second new identity follows within ten seconds of the first, so it has to wait.
    for _ in range(2):
        await tor.new_identity()
        circuits.append(await circuit(tor, plain, site))
    assert len(set(circuits)) == 3
    assert await tor.proxy("one") != session


async def test_many_who_want_a_new_identity_at_once_share_one(tor: Tor, site: str) -> None:
    plain = await tor.plain_proxy()
    before = await circuit(tor, plain, site)
    await asyncio.gather(*(tor.new_identity() for _ in range(5)))
    assert await circuit(tor, plain, site) != before


async def test_a_new_identity_needs_no_tor_that_runs(tmp_path: Path) -> None:
    await Tor(tmp_path, program="no-such-tor").new_identity()


def test_two_processes_never_share_an_identity() -> None:
    assert Identities().login("one") != Identities().login("one")


def test_any_text_can_name_a_session() -> None:
    logins = {Identities().login(name) for name in ("", "a:b@c/d", "ü" * 1000, "\udcff", "<torS0X>1")}
    assert all(len(login) < 255 and login.replace(":", "").isalnum() for login in logins)


def test_what_is_remembered_of_renewed_sessions_is_bounded() -> None:
    identities = Identities()
    for number in range(20_001):
        identities.renew(str(number))
    assert len(identities._renewed) == 10_000
    kept = identities.login("20000")
    assert kept == identities.login("20000")
    identities.renew("20000")
    assert kept != identities.login("20000")
