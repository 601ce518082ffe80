"""The control port: authentication, commands, and servers that are not Tor."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import wait_until

from longshore.scrape.tor import Bootstrap, TorError, control
from longshore.scrape.tor.control import TorControl

PASSWORD = 'ebb "and" \\flow'


@pytest.fixture(scope="module")
def guarded(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """Start a Tor without a network that accepts a password or a cookie; yield its control port and cookie."""
    folder = tmp_path_factory.mktemp("guarded")
    told = subprocess.run([program, "--hash-password", PASSWORD], capture_output=True, text=True, check=True)
    options = {
        "DisableNetwork": "1",
        "DataDirectory": str(folder / "data"),
        "SocksPort": "0",
        "ControlPort": "auto",
        "ControlPortWriteToFile": str(folder / "port"),
        "CookieAuthentication": "1",
        "HashedControlPassword": told.stdout.split()[-1],
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    command = [program, "-f", str(folder / "none"), "--ignore-missing-torrc", "--quiet", *words]
    with subprocess.Popen(command) as tor:
        wait_until((folder / "port").exists)
        yield int((folder / "port").read_text().rpartition(":")[2]), folder / "data" / "control_auth_cookie"
        tor.kill()


Impostor = Callable[[bytes], Awaitable[int]]


@pytest.fixture
async def impostor() -> AsyncIterator[Impostor]:
    """Start a server that sends one reply to any input and closes the connection; return its port."""
    servers = []

    async def start(answer: bytes) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(answer)
            await writer.drain()
            writer.close()

        servers.append(server := await asyncio.start_server(serve, "127.0.0.1", 0))
        return int(server.sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


async def test_a_password_lets_in(guarded: tuple[int, Path]) -> None:
    async with await TorControl.open("127.0.0.1", guarded[0], password=PASSWORD) as client:
        assert (await client.ask_for("version")).startswith("0.")


async def test_a_cookie_lets_in(guarded: tuple[int, Path]) -> None:
    port, cookie = guarded
    async with await TorControl.open("127.0.0.1", port, cookie=cookie) as client:
        assert (await client.ask_for("version")).startswith("0.")


@pytest.mark.parametrize("password", ["", "guess"])
async def test_who_does_not_know_it_stays_out_and_the_message_does_not_repeat_it(
    guarded: tuple[int, Path], password: str
) -> None:
    with pytest.raises(TorError, match=r"^Tor refused AUTHENTICATE: Authentication failed") as caught:
        await TorControl.open("127.0.0.1", guarded[0], password=password)
    assert "guess" not in str(caught.value)


async def test_a_cookie_of_another_tor_is_found_out_before_anything_is_said(
    guarded: tuple[int, Path], tmp_path: Path
) -> None:
    (tmp_path / "cookie").write_bytes(b"x" * 32)
    with pytest.raises(TorError, match="is not the Tor whose cookie is"):
        await TorControl.open("127.0.0.1", guarded[0], cookie=tmp_path / "cookie")
    with pytest.raises(TorError, match=r"cookie .*missing cannot be read: No such file.*Run as the user"):
        await TorControl.open("127.0.0.1", guarded[0], cookie=tmp_path / "missing")


async def test_a_refusal_leaves_the_connection_usable(guarded: tuple[int, Path]) -> None:
    async with await TorControl.open("127.0.0.1", guarded[0], password=PASSWORD) as client:
        with pytest.raises(TorError, match="Tor refused NONSENSE: Unrecognized command"):
            await client.ask("NONSENSE")
        with pytest.raises(TorError, match="This Tor has no SOCKS port"):
            await client.socks_port()
        with pytest.raises(ValueError, match="one line"):
            await client.ask("GETINFO version\r\nSIGNAL HALT")
        assert await client.ask_for("version")


async def test_an_answer_of_many_lines_is_read_to_its_end(guarded: tuple[int, Path]) -> None:
    async with await TorControl.open("127.0.0.1", guarded[0], password=PASSWORD) as client:
        lines = await client.ask("GETINFO config/names")
        assert lines[0] == "config/names="
        assert lines[-1] == "OK"
        assert len(lines) > 100
        assert await client.ask_for("version")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not Tor: 'HTTP/1.1 400 Bad Request'"),
        (b"", "Tor does not answer: it closed the connection"),
        (b"250-half", "Tor does not answer: it closed the connection"),
        (b"x" * 100_000, "is not Tor: its lines do not end"),
    ],
)
async def test_what_is_not_tor_is_found_out(impostor: Impostor, answer: bytes, complaint: str) -> None:
    with pytest.raises(TorError, match=complaint) as caught:
        await TorControl.open("127.0.0.1", await impostor(answer), password="any")
    assert caught.value.retryable


async def test_a_port_where_nobody_listens_is_named() -> None:
    with pytest.raises(TorError, match=r"control port of Tor at 127.0.0.1:1 does not answer: .*refused"):
        await TorControl.open("127.0.0.1", 1)


async def test_one_that_is_silent_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "ANSWER_SECONDS", 0.05)
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        ended.set()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        with pytest.raises(TorError, match=r"Tor does not answer: it was silent for 0.05 s"):
            await TorControl.open("127.0.0.1", server.sockets[0].getsockname()[1])
        await ended.wait()


def test_what_is_in_the_way_of_a_start_is_read() -> None:
    line = (
        'STATUS_CLIENT WARN BOOTSTRAP PROGRESS=10 TAG=conn_done SUMMARY="Connected to a relay" '
        'WARNING="Connection refused" REASON=CONNECTREFUSED COUNT=4 RECOMMENDATION=warn'
    )
    assert Bootstrap.read(line) == Bootstrap(10, "Connected to a relay", "Connection refused")
    assert str(Bootstrap.read(line)) == "10 % (Connected to a relay: Connection refused)"
    assert Bootstrap.read("STATUS_CLIENT NOTICE CIRCUIT_ESTABLISHED") is None


async def test_progress_never_goes_back() -> None:
    """Events of steps before the query arrive after its reply."""

    def step(percent: int) -> bytes:
        return f'NOTICE BOOTSTRAP PROGRESS={percent} TAG=x SUMMARY="s"\r\n'.encode()

    reader = asyncio.StreamReader()
    reader.feed_data(b"250 OK\r\n650 STATUS_CLIENT " + step(15) + b"650 STATUS_CLIENT " + step(20))
    reader.feed_data(b"250-status/bootstrap-phase=" + step(30) + b"250 OK\r\n")
    reader.feed_data(b"650 STATUS_CLIENT " + step(75) + b"650 STATUS_CLIENT " + step(100) + b"250 OK\r\n")

    class Deaf:
        def write(self, _: bytes) -> None: ...

        async def drain(self) -> None: ...

    told: list[int] = []
    await TorControl(reader, Deaf()).bootstrap(lambda progress: told.append(progress.percent))  # type: ignore[arg-type]
    assert told == [30, 75, 100]
