"""One Tor per worker: it starts at the first use, waits until it is connected, and ends with its worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from tests.scrape.tor.conftest import Visit
from tests.services.tor import EXITS, TorNetwork, lives
from tests.waiting import wait_until

from longshore.scrape.tor import Bootstrap, Tor, TorError, TorMissingError
from longshore.scrape.tor import process as process_module
from longshore.scrape.tor.data_dir import TorDataDir


def children() -> list[int]:
    """Return the Tor processes that this process started."""
    return [child.pid for child in psutil.Process().children() if lives(child.pid) and child.name() == "tor"]


async def test_it_starts_at_the_first_use_and_says_how_far_it_is(
    network: TorNetwork, tmp_path: Path, visit: Visit
) -> None:
    steps: list[Bootstrap] = []
    tor = Tor(tmp_path, torrc=Path(network.torrc), on_progress=steps.append)
    before = children()
    try:
        assert await visit(await tor.proxy()) in EXITS
        assert len(children()) == len(before) + 1
    finally:
        await tor.close()
    assert children() == before
    percents = [step.percent for step in steps]
    assert percents == sorted(percents)
    assert percents[-1] == 100
    assert len(percents) > 2
    assert all(step.summary for step in steps)


async def test_all_who_ask_while_it_starts_get_the_same_tor(tor: Tor) -> None:
    before = children()
    first, second, *_ = proxies = await asyncio.gather(*(tor.proxy("one") for _ in range(5)))
    assert first == second
    assert len(set(proxies)) == 1
    assert len(children()) == len(before) + 1


async def test_a_start_goes_on_when_the_attempt_that_asked_for_it_is_cancelled(tor: Tor, visit: Visit) -> None:
    impatient = asyncio.create_task(tor.proxy())
    await asyncio.to_thread(wait_until, lambda: bool(children()))
    [process] = children()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert await visit(await tor.proxy()) in EXITS
    assert children() == [process]


async def test_a_tor_that_is_closed_while_it_starts_leaves_nothing_behind(tor: Tor) -> None:
    waiting = asyncio.create_task(tor.proxy())
    await asyncio.to_thread(wait_until, lambda: bool(children()))
    await tor.close()
    with pytest.raises(TorError, match="closed while it started"):
        await waiting
    assert not children()


async def test_a_tor_that_died_is_started_again_by_the_next_who_asks(tor: Tor, visit: Visit) -> None:
    await tor.start()
    [process] = children()
    os.kill(process, signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert await visit(await tor.proxy()) in EXITS
    assert len(children()) == 1


async def test_two_in_one_folder_share_nothing_and_a_place_that_is_left_is_taken_again(
    network: TorNetwork, tmp_path: Path
) -> None:
    first, second = (Tor(tmp_path / "tor", torrc=Path(network.torrc)) for _ in range(2))
    try:
        one, other = await asyncio.gather(first.start(), second.start())
        assert one.socks_port != other.socks_port
        assert one.control_port != other.control_port
        assert one.cookie != other.cookie
        await first.close()
        again = await first.start()
        assert again.cookie == one.cookie
    finally:
        await first.close()
        await second.close()
    assert sorted(place.name for place in (tmp_path / "tor").iterdir()) == ["1", "2"]


async def test_it_carries_its_mark_and_opens_no_port_that_the_users_own_configuration_names(
    network: TorNetwork, tmp_path: Path
) -> None:
    torrc = tmp_path / "torrc"
    torrc.write_text(f"%include {network.torrc}\nSocksPort 1\nControlPort 1\nDNSPort 1\nRunAsDaemon 1\n")
    tor = Tor(tmp_path / "tor", torrc=torrc, environment={"LONGSHORE_CHILD_OF": "somebody"})
    try:
        await tor.start()
        [process] = children()
        assert psutil.Process(process).environ()["LONGSHORE_CHILD_OF"] == "somebody"
        ports = {connection.laddr.port for connection in psutil.Process(process).net_connections("inet")}
        assert 1 not in ports
    finally:
        await tor.close()


WORKER = """
import asyncio, sys
from pathlib import Path
from longshore.scrape.tor import Tor

async def main():
    tor = Tor(Path(sys.argv[1]), torrc=Path(sys.argv[2]))
    await tor.start()
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@contextlib.contextmanager
def worker_with_tor(folder: Path, torrc: str) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """Run a worker in another process with a ready Tor. The worker is killed at the end at the latest."""
    command = [sys.executable, "-c", WORKER, str(folder), torrc]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            [tor] = psutil.Process(worker.pid).children()
            yield worker, tor
        finally:
            worker.kill()


def test_it_ends_with_a_worker_that_is_killed(network: TorNetwork, tmp_path: Path) -> None:
    with worker_with_tor(tmp_path, network.torrc) as (worker, tor):
        assert os.getpgid(tor.pid) != os.getpgid(worker.pid), "a terminal's Ctrl-C would end it before its worker"
    wait_until(lambda: not lives(tor.pid))


def test_the_place_of_a_tor_is_not_free_before_it_has_ended_itself(network: TorNetwork, tmp_path: Path) -> None:
    with worker_with_tor(tmp_path, network.torrc) as (_, tor):
        tor.suspend()
    try:
        place = TorDataDir.take(tmp_path)
        place.release()
        assert place.folder.name == "2"
    finally:
        tor.resume()
    wait_until(lambda: not lives(tor.pid))


async def test_a_tor_that_does_not_listen_to_reason_is_killed(tor: Tor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "_END_SECONDS", 0.1)
    await tor.start()
    [process] = children()
    os.kill(process, signal.SIGSTOP)
    await tor.close()
    assert not children()


async def test_a_machine_without_tor_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(
        TorMissingError, match=r"no program 'no-such-tor'.*Fix: install Tor.*apt-get install tor"
    ) as caught:
        await Tor(tmp_path, program="no-such-tor").proxy()
    assert caught.value.retryable


async def test_what_tor_says_is_wrong_with_its_configuration_is_passed_on(program: str, tmp_path: Path) -> None:
    torrc = tmp_path / "torrc"
    torrc.write_text("NoSuchOption 1\n")
    with pytest.raises(TorError, match="Unknown option 'NoSuchOption'"):
        await Tor(tmp_path / "tor", torrc=torrc).start()
    with pytest.raises(TorError, match=r"elsewhere, does not exist"):
        await Tor(tmp_path / "tor", torrc=tmp_path / "elsewhere").start()
    assert not children()


async def test_a_folder_that_cannot_be_used_is_named(program: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TorError, match=r"cannot keep its data in .*file: "):
        await Tor(tmp_path / "file").start()


async def test_a_tor_that_gets_no_further_says_how_far_it_got(program: str, tmp_path: Path) -> None:
    torrc = tmp_path / "torrc"
    torrc.write_text(f"DirAuthority nobody orport=1 127.0.0.1:1 {'f' * 40}\n")
    tor = Tor(tmp_path / "tor", torrc=torrc, patience=timedelta(seconds=1))
    with pytest.raises(TorError, match=r"Tor got to \d+ % \(.+\) and no further within 1 s.*internet.*log"):
        await tor.start()
    assert not children()
