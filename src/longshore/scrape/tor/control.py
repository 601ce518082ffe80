"""A client of Tor's control port, for the few commands that Longshore needs.

A command is one line. The reply is one or more lines that begin with a code: `250` is success, `5xx` a refusal. Lines
that begin with `650` are events; Tor sends those we subscribed to at any time between replies.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import re
import secrets
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from longshore.errors import ConnectionFailedError

ANSWER_SECONDS = 30.0
"""A running Tor replies at once; without a reply for this long it counts as hanging."""

_PHASE = re.compile(r"\bBOOTSTRAP\b.* PROGRESS=(\d+)")
_SUMMARY = re.compile(r' SUMMARY="([^"]*)"')
_WARNING = re.compile(r' WARNING="([^"]*)"')


class TorError(ConnectionFailedError):
    """Tor cannot be used now. Retryable: a Tor that has ended is started again."""


class Bootstrap(msgspec.Struct, frozen=True):
    """The progress of a Tor that connects to the network."""

    percent: int
    summary: str
    """The current step, in Tor's words."""
    warning: str = ""
    """The obstacle that Tor reports, if any."""

    def __str__(self) -> str:
        return f"{self.percent} % ({self.summary}{': ' + self.warning if self.warning else ''})"

    @classmethod
    def read(cls, line: str) -> Bootstrap | None:
        """Return the progress in a line from Tor; None if the line is about something else."""
        phase = _PHASE.search(line)
        if phase is None:
            return None
        summary, warning = _SUMMARY.search(line), _WARNING.search(line)
        return cls(int(phase[1]), summary[1] if summary else "", warning[1] if warning else "")


class TorControl:
    """One connection to a control port. `open` connects and authenticates; `close` or an `async with` block ends it.

    One task at a time may use it. All failures are raised as `TorError`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._events: deque[str] = deque()

    @classmethod
    async def open(cls, host: str, port: int, *, cookie: Path | None = None, password: str = "") -> Self:
        """Connect and authenticate by the cookie (a file that only Tor's own user can read) or the password."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise TorError(f"The control port of Tor at {host}:{port} does not answer: {_why(error)}.") from error
        control = cls(reader, writer)
        try:
            await control._authenticate(cookie, password)
        except BaseException:
            await control.close()
            raise
        return control

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def ask(self, command: str) -> list[str]:
        """Send a command and return the lines of its reply without their codes. Raise `TorError` if Tor refuses."""
        if "\r" in command or "\n" in command:
            raise ValueError("a command is one line")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._writer.write(f"{command}\r\n".encode())
                await self._writer.drain()
                while (answer := await self._message())[0] == "650":
                    self._events.append("\n".join(answer[1]))
        except OSError as error:
            raise TorError(f"Tor does not answer: {_why(error)}.") from error
        code, lines = answer
        if not code.startswith("2"):
            # Show the first word only: the rest may be a password.
            raise TorError(f"Tor refused {command.partition(' ')[0]}: {' '.join(lines)}.")
        return lines

    async def ask_for(self, name: str) -> str:
        """Return one value from Tor (GETINFO)."""
        return (await self.ask(f"GETINFO {name}"))[0].partition("=")[2]

    async def wait_for(self, wanted: Callable[[str], bool]) -> str:
        """Return the next event for which `wanted` returns True, and drop those before it. There is no time limit."""
        try:
            while True:
                while self._events:
                    if wanted(event := self._events.popleft()):
                        return event
                code, lines = await self._message()
                if code == "650":
                    self._events.append("\n".join(lines))
        except OSError as error:
            raise TorError(f"Tor closed the control connection: {_why(error)}.") from error

    async def socks_port(self) -> tuple[str, int]:
        """Return the address and port of Tor's SOCKS listener."""
        listeners = re.findall(r'"([^"]+):(\d+)"', await self.ask_for("net/listeners/socks"))
        if not listeners:
            raise TorError("This Tor has no SOCKS port. Set SocksPort in its configuration.")
        host, port = listeners[0]
        return host, int(port)

    async def keep_to_one_circuit(self) -> None:
        """Turn Conflux off: it spreads a session over several circuits and may move it to another exit.

        Versions of Tor before 0.4.8 do not have Conflux.
        """
        if any(line.startswith("ConfluxEnabled ") for line in await self.ask("GETINFO config/names")):
            await self.ask("SETCONF ConfluxEnabled=0")

    async def bootstrap(self, on_progress: Callable[[Bootstrap], None]) -> None:
        """Wait until this Tor can carry traffic (100 %), and call `on_progress` at each step."""
        await self.ask("SETEVENTS STATUS_CLIENT")
        step = Bootstrap.read(await self.ask_for("status/bootstrap-phase"))
        reported: Bootstrap | None = None
        while True:
            # Events from before the query arrive after its reply, so ignore steps back.
            if step is not None and step != reported and (reported is None or step.percent >= reported.percent):
                on_progress(step)
                reported = step
            if step is not None and step.percent >= 100:
                break
            step = Bootstrap.read(await self.wait_for(lambda event: Bootstrap.read(event) is not None))
        await self.ask("SETEVENTS")

    async def new_circuits(self) -> None:
        """Tell Tor to use new circuits for new connections (NEWNYM), and wait until it does.

        Tor does this at most once in ten seconds. It replies at once and delays the command if needed, so only the
        event shows that it was carried out.
        """
        await self.ask("SETEVENTS SIGNAL")
        await self.ask("SIGNAL NEWNYM")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.wait_for(lambda event: event == "SIGNAL NEWNYM")
        except TimeoutError as error:
            raise TorError(f"Tor accepted NEWNYM but made no new circuits: {_why(error)}.") from error
        await self.ask("SETEVENTS")

    async def close(self) -> None:
        """Close the connection. Closing twice is harmless."""
        self._writer.close()
        with contextlib.suppress(OSError):  # the connection is already lost
            await self._writer.wait_closed()

    async def _authenticate(self, cookie: Path | None, password: str) -> None:
        if cookie is not None:
            await self._prove_cookie(cookie)
        elif password:
            quoted = password.replace("\\", "\\\\").replace('"', '\\"')
            await self.ask(f'AUTHENTICATE "{quoted}"')
        else:
            await self.ask("AUTHENTICATE")

    async def _prove_cookie(self, file: Path) -> None:
        """Authenticate by SAFECOOKIE: each side proves that it knows the cookie without sending it."""
        cookie = _read_cookie(file)
        ours = secrets.token_bytes(32)
        [answer] = await self.ask(f"AUTHCHALLENGE SAFECOOKIE {ours.hex()}")
        found = re.fullmatch(r"AUTHCHALLENGE SERVERHASH=(\w{64}) SERVERNONCE=(\w{64})", answer)
        if found is None:
            raise TorError(f"What answers at the control port is not Tor: {answer}.")
        message = cookie + ours + bytes.fromhex(found[2])
        server = hmac.digest(b"Tor safe cookie authentication server-to-controller hash", message, "sha256")
        if not hmac.compare_digest(server, bytes.fromhex(found[1])):
            raise TorError(f"What answers at the control port is not the Tor whose cookie is {file}.")
        client = hmac.digest(b"Tor safe cookie authentication controller-to-server hash", message, "sha256")
        await self.ask(f"AUTHENTICATE {client.hex()}")

    async def _message(self) -> tuple[str, list[str]]:
        """Return the code and the lines of the next reply or event."""
        lines = []
        while True:
            line = await self._line()
            code, mark, text = line[:3], line[3:4], line[4:]
            if not code.isdigit() or mark not in {" ", "-", "+"}:
                raise TorError(f"What answers at the control port is not Tor: {line[:80]!r}.")
            lines.append(text)
            if mark == "+":
                while (more := await self._line()) != ".":
                    lines.append(more.removeprefix("."))
            if mark == " ":
                return code, lines

    async def _line(self) -> str:
        try:
            line = await self._reader.readuntil(b"\r\n")
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("it closed the connection") from None
        except asyncio.LimitOverrunError:
            raise TorError("The server at the control port is not Tor: its lines do not end.") from None
        return line[:-2].decode(errors="replace")


def _read_cookie(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise TorError(f"Tor's cookie {file} cannot be read: {why}. Run as the user that Tor runs as.") from error


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"it was silent for {ANSWER_SECONDS:g} s"
    # asyncio replaces the system's error text by its own.
    return os.strerror(error.errno) if error.errno else str(error)
