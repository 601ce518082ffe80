"""One Tor process for one worker, with its own ports and folder, which ends when the worker ends.

Tor picks free ports itself and reports them, so no other process can take them in between. Three mechanisms end it with
its worker: Tor watches our process, Tor exits when our control connection closes, and `close` ends it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

from longshore.scrape.tor.control import Bootstrap, TorControl, TorError
from longshore.scrape.tor.data_dir import TorDataDir
from longshore.scrape.tor.identity import Endpoint, Identities
from longshore.system.processes import inherited, new_group_flags

DEFAULT_PATIENCE = timedelta(minutes=2)
"""The longest time without progress while Tor connects to the network. A slow line makes many small steps."""

_HOST = "127.0.0.1"
_POLL_SECONDS = 0.02
_END_SECONDS = 5.0
_FIXED_OPTIONS = {
    "ClientOnly": "1",
    "RunAsDaemon": "0",
    "Log": "notice stdout",
    # A session in use keeps its exit; otherwise Tor changes it after ten minutes.
    "SocksPort": "auto KeepAliveIsolateSOCKSAuth",
    "ControlPort": "auto",
    "CookieAuthentication": "1",
    # Other ports in a user's configuration could be opened by the first worker only, so they are off.
    "ControlSocket": "0",
    "DNSPort": "0",
    "HTTPTunnelPort": "0",
    "NATDPort": "0",
    "TransPort": "0",
    "ORPort": "0",
    "DirPort": "0",
}
"""The options that override the user's own configuration."""


class TorMissingError(TorError):
    """This machine has no Tor program. Retryable: another machine may have one."""


def find_tor(program: str = "tor") -> str:
    """Return the path of the program. Raise `TorMissingError` if there is none."""
    # Debian installs it in a folder that is not in the PATH of an ordinary user.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"])
    found = shutil.which(program, path=path)
    if found is None:
        raise TorMissingError(
            f"There is no program '{program}' on this machine. Fix: install Tor (Debian, Ubuntu: apt-get install tor; "
            "Fedora: dnf install tor; macOS: brew install tor), or name it by its full path."
        )
    return found


def _ignore_progress(step: Bootstrap) -> None:
    pass


class Tor:
    """A worker's own Tor. It starts at the first use, and again if it has died; `close` ends it."""

    def __init__(
        self,
        folder: Path,
        *,
        program: str = "tor",
        torrc: Path | None = None,
        environment: Mapping[str, str] | None = None,
        patience: timedelta = DEFAULT_PATIENCE,
        on_progress: Callable[[Bootstrap], None] = _ignore_progress,
    ) -> None:
        """Make a Tor; many workers may share `folder`: each locks a subfolder of it, and later workers reuse it.

        `torrc` is a Tor configuration file, for bridges or the country of the exit. Its ports and folders are ignored:
        they are chosen here, so that workers never conflict. `environment` is added to that of the Tor process, so that
        the cleanup after a killed worker can find a hanging Tor.
        """
        self._environment = environment or {}
        self._folder = folder
        self._program = program
        self._torrc = torrc
        self._patience = patience
        self._on_progress = on_progress
        self._identities = Identities()
        self._running: _Process | None = None
        self._starting: asyncio.Task[Endpoint] | None = None
        self._step = Bootstrap(0, "Starting")

    @property
    def bootstrapping(self) -> Bootstrap | None:
        """How far Tor has come while it starts; None when it runs, and when it is not needed."""
        return None if self._starting is None else self._step

    async def start(self) -> Endpoint:
        """Start Tor if it does not run, wait until it can carry traffic, and return its endpoint.

        Concurrent callers wait for the same start, which continues if one of them is cancelled. Raise `TorError` with
        the obstacle if Tor cannot be used.
        """
        if self._running is not None and self._running.alive:
            return self._running.endpoint
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._started)
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if starting.cancelled() and not _being_cancelled():
                raise TorError("Tor was closed while it started.") from None
            raise

    async def proxy(self, session: str = "") -> str:
        """Return the SOCKS URL of a session. It stays the same until the session gets a new identity.

        Sessions do not share circuits, so usually a site cannot link two of them. Start Tor if it does not run.
        """
        endpoint = await self.start()
        return endpoint.proxy(self._identities.login(session))

    async def plain_proxy(self) -> str:
        """Return the SOCKS URL without a session, for programs that cannot log in to a proxy, such as browsers."""
        return (await self.start()).plain_proxy

    async def new_identity(self, session: str | None = None) -> None:
        """Give a session a new circuit, at once and without effect on other sessions.

        Without a session, all sessions and the plain proxy get new circuits. Tor allows that once in ten seconds; the
        call returns when it is done. Tor picks the exit at random: sometimes it is the previous one.

        Open connections keep their circuit. Call `proxy` again and connect through the new URL.
        """
        if session is not None:
            self.renew(session)
            return
        self._identities.renew_all()
        if self._running is not None and self._running.alive:
            await self._running.endpoint.new_circuits()

    def renew(self, session: str) -> None:
        """Do the same as `new_identity(session)`, without await."""
        self._identities.renew(session)

    async def close(self) -> None:
        """End Tor, by force if needed. Closing twice is harmless; a later call of `proxy` starts it again."""
        if (starting := self._starting) is not None:
            starting.cancel()
            await asyncio.wait([starting])
        running, self._running = self._running, None
        if running is not None:
            await running.end()

    def _started(self, task: asyncio.Task[Endpoint]) -> None:
        self._starting = None
        if not task.cancelled():
            # Mark the error as retrieved: if no caller waits any more, asyncio would log it.
            task.exception()

    def _note(self, step: Bootstrap) -> None:
        self._step = step
        self._on_progress(step)

    async def _start(self) -> Endpoint:
        self._step = Bootstrap(0, "Starting")
        dead, self._running = self._running, None
        if dead is not None:
            await dead.end()
        program = find_tor(self._program)
        if self._torrc is not None and not self._torrc.is_file():
            raise TorError(f"The configuration file of Tor, {self._torrc}, does not exist. Create it or name another.")
        process = _Process(program, self._folder, self._torrc, self._environment)
        try:
            endpoint = await process.enter(self._patience, self._note)
        except BaseException:
            await process.end()
            raise
        self._running = process
        return endpoint


class _Process:
    """The Tor process, from its start to its end."""

    endpoint: Endpoint

    def __init__(self, program: str, folder: Path, torrc: Path | None, environment: Mapping[str, str]) -> None:
        try:
            self._data_dir = TorDataDir.take(folder)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise TorError(f"Tor cannot keep its data in {folder}: {why}. Name a folder it can write to.") from error
        self._data = self._data_dir.folder / "data"
        self._port = self._data_dir.folder / "control-port"
        self._cookie = self._data_dir.folder / "control-cookie"
        self._log = self._data_dir.folder / "log"
        self._control: TorControl | None = None
        try:
            self._process = self._launch(program, torrc, environment)
        except OSError as error:
            self._data_dir.release()
            raise TorError(f"{program} cannot be started: {error.strerror or error}.") from error

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def enter(self, patience: timedelta, on_progress: Callable[[Bootstrap], None]) -> Endpoint:
        """Take ownership of the process, wait until it is connected to the network, and return its endpoint."""
        loop = asyncio.get_running_loop()
        last = Bootstrap(0, "Starting")

        def note(step: Bootstrap) -> None:
            nonlocal last
            if step.percent > last.percent:
                deadline.reschedule(loop.time() + patience.total_seconds())
            last = step
            on_progress(step)

        try:
            async with asyncio.timeout(patience.total_seconds()) as deadline:
                port = await self._control_port()
                self._control = control = await TorControl.open(_HOST, port, cookie=self._cookie)
                await control.ask("TAKEOWNERSHIP")
                await control.keep_to_one_circuit()
                host, socks_port = await control.socks_port()
                await control.bootstrap(note)
        except TimeoutError as error:
            raise TorError(
                f"Tor got to {last} and no further within {patience.total_seconds():g} s. Check that this machine "
                f"reaches the internet and that Tor is not blocked here (bridges help then). Its log: {self._log}"
            ) from error
        except TorError as error:
            if self.alive:
                raise
            raise TorError(f"Tor ended as it started: {self._last_errors()}") from error
        self.endpoint = Endpoint(host, socks_port, port, str(self._cookie))
        return self.endpoint

    async def end(self) -> None:
        """Terminate the process, and kill it if it does not end."""
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()  # has no effect if it has ended
            self._process.wait()
            self._data_dir.release()
            if self._control is not None:
                await self._control.close()

    def _launch(self, program: str, torrc: Path | None, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        for stale in (self._port, self._cookie):
            stale.unlink(missing_ok=True)
        no_file = self._data_dir.folder / "nothing"
        options = _FIXED_OPTIONS | {
            "DataDirectory": str(self._data),
            "ControlPortWriteToFile": str(self._port),
            "CookieAuthFile": str(self._cookie),
            "__OwningControllerProcess": str(os.getpid()),
        }
        # Do not read the system's configuration: it is for the system's own Tor.
        files = ["-f", str(torrc or no_file), "--ignore-missing-torrc", "--defaults-torrc", str(no_file)]
        with self._log.open("wb") as log:
            return subprocess.Popen(  # noqa: S603  the program is found by us or named by the user
                [program, *files, *(word for name, value in options.items() for word in (f"--{name}", value))],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=inherited(self._data_dir.lock),
                # Not reached by Ctrl-C in a terminal: jobs in flight finish first and need their Tor.
                start_new_session=True,
                creationflags=new_group_flags(),
            )

    async def _control_port(self) -> int:
        """Wait until Tor has written its control port, and return it."""
        while not (self._port.exists() and self._cookie.exists()):
            if not self.alive:
                raise TorError("it ended")
            await asyncio.sleep(_POLL_SECONDS)
        return int(self._port.read_text().rpartition(":")[2])

    def _last_errors(self) -> str:
        """Return the last two warnings or errors of the log. The last error often only refers to the one before."""
        lines = self._log.read_text(errors="replace").splitlines()
        problems = [line.partition("] ")[2] for line in lines if "[warn]" in line or "[err]" in line]
        return " ".join(problems[-2:]) or f"exit code {self._process.returncode}, see {self._log}"


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
