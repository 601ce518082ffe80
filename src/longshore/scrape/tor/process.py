"""One Tor for one worker: with ports and a folder that nobody else has, and an end when the worker ends.

Tor picks free ports itself and says which, so there is no moment in which another could take them. It is told whose it
is in three ways: it watches our process, it ends when our control connection does, and `close` ends it.
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
"""Without a step ahead on the way into the network. A slow line makes many small steps."""

_HOST = "127.0.0.1"
_LOOK_SECONDS = 0.02
_END_SECONDS = 5.0
_OURS = {
    "ClientOnly": "1",
    "RunAsDaemon": "0",
    "Log": "notice stdout",
    # A session that is in use keeps its exit for longer than the ten minutes after which Tor changes it.
    "SocksPort": "auto KeepAliveIsolateSOCKSAuth",
    "ControlPort": "auto",
    "CookieAuthentication": "1",
    # Other ports that a configuration may open would be open once for each worker, and so for the first one only.
    "ControlSocket": "0",
    "DNSPort": "0",
    "HTTPTunnelPort": "0",
    "NATDPort": "0",
    "TransPort": "0",
    "ORPort": "0",
    "DirPort": "0",
}
"""What overrules the user's own configuration."""


class TorMissingError(TorError):
    """There is no Tor on this machine. Another machine may have one, so the job is worth another try."""


def find_tor(program: str = "tor") -> str:
    """The path of the program. `TorMissingError` where there is none."""
    # Debian keeps it where the PATH of an ordinary user does not lead.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"])
    found = shutil.which(program, path=path)
    if found is None:
        raise TorMissingError(
            f"There is no program '{program}' on this machine. Fix: install Tor (Debian, Ubuntu: apt-get install tor; "
            "Fedora: dnf install tor; macOS: brew install tor), or name it by its full path."
        )
    return found


def _tell_nobody(step: Bootstrap) -> None:
    pass


class Tor:
    """A Tor of our own. Starts when it is first needed, and again if it has died; `close` ends it."""

    def __init__(
        self,
        folder: Path,
        *,
        program: str = "tor",
        torrc: Path | None = None,
        environment: Mapping[str, str] | None = None,
        patience: timedelta = DEFAULT_PATIENCE,
        on_progress: Callable[[Bootstrap], None] = _tell_nobody,
    ) -> None:
        """Many workers may share `folder`: each takes a place of its own in it, and later ones reuse what is free.

        `torrc` is a file of Tor's own configuration, for bridges or the country of the exit. Ports and folders that it
        names do not count: they are chosen here, so that workers never meet. `environment` is added to Tor's own: by it
        whoever cleans up after a worker that was killed can find a Tor that hangs.
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

    async def start(self) -> Endpoint:
        """See to it that Tor runs and can carry traffic, and say where. Costs nothing where it does.

        All who call while it starts wait for the same start; it goes on if one of them is cancelled. Raises `TorError`,
        naming what is in the way.
        """
        if self._running is not None and self._running.lives:
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
        """The URL of a SOCKS proxy: the same for a session until it gets a new identity, and another for any other.

        Sessions do not share circuits, so as a rule a site cannot tell that two of them are one visitor. Starts Tor
        where it does not run.
        """
        endpoint = await self.start()
        return endpoint.proxy(self._identities.login(session))

    async def plain_proxy(self) -> str:
        """The URL of the same proxy without a session, for programs that cannot log in to one, such as browsers."""
        return (await self.start()).plain_proxy

    async def new_identity(self, session: str | None = None) -> None:
        """Let a session come out of the network anew: at once, and no other session is disturbed.

        Without a session all of them do, and so does what uses the plain proxy. Tor allows that once in ten seconds;
        this returns when it is so. The exit is drawn by lot: now and then it is the one from before.

        Connections that are open stay as they are. Ask for the proxy again and connect by it.
        """
        if session is not None:
            self.renew(session)
            return
        self._identities.renew_all()
        if self._running is not None and self._running.lives:
            await self._running.endpoint.new_circuits()

    def renew(self, session: str) -> None:
        """`new_identity` of one session, for whoever cannot await."""
        self._identities.renew(session)

    async def close(self) -> None:
        """End Tor, by force if need be. Closing twice is harmless; whoever asks for a proxy later starts it again."""
        if (starting := self._starting) is not None:
            starting.cancel()
            await asyncio.wait([starting])
        running, self._running = self._running, None
        if running is not None:
            await running.end()

    def _started(self, task: asyncio.Task[Endpoint]) -> None:
        self._starting = None
        if not task.cancelled():
            # Whoever waited has been told. Looked at here too, or asyncio would complain where nobody waits any more.
            task.exception()

    async def _start(self) -> Endpoint:
        dead, self._running = self._running, None
        if dead is not None:
            await dead.end()
        program = find_tor(self._program)
        if self._torrc is not None and not self._torrc.is_file():
            raise TorError(f"There is no file {self._torrc}, which is named as the configuration of Tor.")
        process = _Process(program, self._folder, self._torrc, self._environment)
        try:
            endpoint = await process.enter(self._patience, self._on_progress)
        except BaseException:
            await process.end()
            raise
        self._running = process
        return endpoint


class _Process:
    """The process, from its start to its end."""

    endpoint: Endpoint

    def __init__(self, program: str, folder: Path, torrc: Path | None, environment: Mapping[str, str]) -> None:
        try:
            self._place = TorDataDir.take(folder)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise TorError(f"Tor cannot keep its data in {folder}: {why}. Name a folder it can write to.") from error
        self._data = self._place.folder / "data"
        self._port = self._place.folder / "control-port"
        self._cookie = self._place.folder / "control-cookie"
        self._log = self._place.folder / "log"
        self._control: TorControl | None = None
        try:
            self._process = self._launch(program, torrc, environment)
        except OSError as error:
            self._place.release()
            raise TorError(f"{program} cannot be started: {error.strerror or error}.") from error

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    async def enter(self, patience: timedelta, on_progress: Callable[[Bootstrap], None]) -> Endpoint:
        """Take possession of it, and wait until it has found its way into the network."""
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
            if self.lives:
                raise
            raise TorError(f"Tor ended as it started: {self._last_words()}") from error
        self.endpoint = Endpoint(host, socks_port, port, str(self._cookie))
        return self.endpoint

    async def end(self) -> None:
        """Ask it to end, and kill it where it does not."""
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()  # has no effect where it has ended
            self._process.wait()
            self._place.release()
            if self._control is not None:
                await self._control.close()

    def _launch(self, program: str, torrc: Path | None, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        for left in (self._port, self._cookie):
            left.unlink(missing_ok=True)
        nothing = self._place.folder / "nothing"
        options = _OURS | {
            "DataDirectory": str(self._data),
            "ControlPortWriteToFile": str(self._port),
            "CookieAuthFile": str(self._cookie),
            "__OwningControllerProcess": str(os.getpid()),
        }
        # The machine's own configuration is for the machine's own Tor.
        files = ["-f", str(torrc or nothing), "--ignore-missing-torrc", "--defaults-torrc", str(nothing)]
        with self._log.open("wb") as log:
            return subprocess.Popen(  # noqa: S603  the program is found by us or named by the user
                [program, *files, *(word for name, value in options.items() for word in (f"--{name}", value))],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=inherited(self._place.lock),
                # Out of reach of a terminal's Ctrl-C: what is under way is finished first, and needs its Tor.
                start_new_session=True,
                creationflags=new_group_flags(),
            )

    async def _control_port(self) -> int:
        """The port it has chosen, once it has."""
        while not (self._port.exists() and self._cookie.exists()):
            if not self.lives:
                raise TorError("it ended")
            await asyncio.sleep(_LOOK_SECONDS)
        return int(self._port.read_text().rpartition(":")[2])

    def _last_words(self) -> str:
        """What it said was wrong, by its log. The error it ends with often only points to the warning before it."""
        lines = self._log.read_text(errors="replace").splitlines()
        grave = [line.partition("] ")[2] for line in lines if "[warn]" in line or "[err]" in line]
        return " ".join(grave[-2:]) or f"exit code {self._process.returncode}, see {self._log}"


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
