"""Runs the user's own git, with their credentials, proxies and ssh agents; it never prompts and runs no hooks."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import IO

from longshore.media.git.location import GitLogin, RepositoryLocation
from longshore.media.git.sync.faults import fetch_too_large, no_git, too_much_output, translate, unanswered
from longshore.media.git.sync.fetched_size import FetchedSize
from longshore.system.processes import end_group, new_group_flags

SILENCE = timedelta(seconds=15)
"""Timeout for the first output of a remote."""
SILENCE_AT_WORK = timedelta(seconds=60)
"""Timeout for every later output: the remote may have to unpack and check a push first."""
LONGEST = timedelta(minutes=30)
"""Timeout for a whole command, however much it transfers."""
_END_SECONDS = 2.0
"""Seconds that git has to exit when it is told to terminate."""
_LOOK_SECONDS = 0.5
"""Seconds between two looks at the size of a fetch."""
_MOST_OUTPUT = 64 << 20
"""Bytes that git may write to stdout: the names of half a million branches."""
_MOST_MESSAGES = 64 << 10
"""Bytes of stderr that are kept, the last ones: a remote can send messages without end."""
_REMOTE_COMMANDS = frozenset({"fetch", "push", "ls-remote"})
"""The commands that contact the remote."""

# These settings override every configuration: no hooks, no programs named by a URL, no background work, and no time
# spent on deltas between small files.
_SETTINGS = (
    "core.hooksPath=" + os.devnull,
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "push.gpgSign=false",
    "pack.window=0",
    # Equal to `SILENCE_AT_WORK`: a hook on the server may take long, and sends nothing meanwhile.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
_USER, _PASSWORD = "LONGSHORE_GIT_USER", "LONGSHORE_GIT_PASSWORD"
# A credential helper of git: a shell function that prints the login. Only the names of the variables are arguments.
_LOGIN_HELPER = f'!f() {{ test "$1" = get && printf \'username=%s\\npassword=%s\\n\' "${_USER}" "${_PASSWORD}"; }}; f'
NO_HOOKS_OF_REMOTE = f"git -c core.hooksPath={os.devnull} receive-pack"
"""The receiving side of a push to a folder of this machine. It runs with our rights, and the settings above do not
reach it: without this, everyone who may write to the repository could have us run a program."""
_OPTIONS = tuple(part for setting in _SETTINGS for part in ("-c", setting))
# Git sets these for its hooks; they would direct our commands to another repository.
_MISLEADING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_COMMON_DIR",
    "GIT_QUARANTINE_PATH",
)


# Progress lines of git and of the remote's git: they reset the timeout, and are not part of the output.
_PROGRESS = re.compile(
    r"(remote: )?([A-Z][a-z]+( [a-z]+)*: +\d.*|Total \d+ \(.*|Delta compression using .*)?\s*", re.ASCII
)


class GitCommand:
    """The git program for one repository folder and one remote."""

    def __init__(self, folder: Path, location: RepositoryLocation) -> None:
        self.folder = folder
        self.location = location
        self.first_timeout = SILENCE
        """Timeout for the first output of the remote."""

    def run(self, *arguments: str) -> str:
        """Run a command and return its output. Raises the error of `faults.translate` if it fails."""
        code, output = self.attempt(*arguments)
        if code != 0:
            raise translate(output, self.location, into=self.folder)
        return output

    def attempt(self, *arguments: str) -> tuple[int, str]:
        """Run a command and return its exit code and output.

        Raises `QueueUnavailableError` if the remote times out, `QueueFullError` if it sends more than the disk can
        take, and `QueueError` if it lists more branches than fit into memory.
        """
        size = FetchedSize(self.folder) if arguments[0] == "fetch" else None
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of arguments, never a shell
                command(self.folder, *arguments),
                env=environment(self.location.login),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C on the terminal is for the worker, which drains; it must not interrupt a push.
                start_new_session=True,
                creationflags=new_group_flags(),
            )
        except FileNotFoundError as error:
            raise no_git() from error
        first, later = (self.first_timeout, SILENCE_AT_WORK) if arguments[0] in _REMOTE_COMMANDS else (LONGEST, LONGEST)
        try:
            stdout, stderr = _communicate(process, first.total_seconds(), later.total_seconds(), size)
        except (TimeoutError, _TooMuchError) as error:
            # Terminate before killing, so that git can remove its lock files.
            end_group(process, _END_SECONDS)
            if size is not None:
                size.remove_unfinished()
            if isinstance(error, TimeoutError):
                raise unanswered(self.location, float(str(error))) from None
            if size is None:
                raise too_much_output(self.location) from None
            raise fetch_too_large(self.location, self.folder, error.written) from None
        process.wait()
        lines = (line for line in re.split(r"[\r\n]", stderr) if not _PROGRESS.fullmatch(line))
        return process.returncode, stdout + "\n".join(lines)


class _TooMuchError(Exception):
    def __init__(self, written: int) -> None:
        super().__init__(written)
        self.written = written


def _communicate(
    process: subprocess.Popen[bytes], first: float, later: float, size: FetchedSize | None
) -> tuple[str, str]:
    """Return what a process writes to stdout and stderr until it ends.

    Raises `TimeoutError` with the seconds of silence if it writes nothing for too long, and `_TooMuchError` if it
    writes too much, to stdout or to the mirror.
    """
    chunks: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    for number, stream in enumerate(streams):
        threading.Thread(target=_pump, args=(number, stream, chunks), daemon=True).start()
    output, messages = bytearray(), bytearray()
    last, until, allowed = time.monotonic(), time.monotonic() + LONGEST.total_seconds(), first
    look_at = last + _LOOK_SECONDS
    while streams:
        if size is not None and time.monotonic() >= look_at and process.poll() is None:
            if over := size.over_half():
                raise _TooMuchError(over)
            look_at = time.monotonic() + _LOOK_SECONDS
        try:
            number, chunk = chunks.get(timeout=0.5)
        except queue.Empty:
            silence = time.monotonic() - last
            if silence <= allowed and time.monotonic() <= until:
                continue
            if process.poll() is not None:
                break  # git has ended, but a background process that it started still holds the pipes
            raise TimeoutError(silence) from None
        if not chunk:
            streams.pop()
            continue
        last, allowed = time.monotonic(), later
        if number:
            messages += chunk
            del messages[:-_MOST_MESSAGES]
        else:
            output += chunk
            if len(output) > _MOST_OUTPUT and process.poll() is None:
                raise _TooMuchError(len(output))
    return output.decode(errors="replace"), messages.decode(errors="replace")


def _pump(number: int, stream: IO[bytes], into: queue.SimpleQueue[tuple[int, bytes]]) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), 1 << 16):
            into.put((number, chunk))
    into.put((number, b""))


def command(folder: Path, *arguments: str) -> list[str]:
    """Return the command line of git for a repository folder."""
    return ["git", *_OPTIONS, f"--git-dir={folder}", *arguments]


@cache
def _ssh_is_configured() -> bool:
    if "GIT_SSH" in os.environ or "GIT_SSH_COMMAND" in os.environ:
        return True
    configured = subprocess.run(["git", "config", "--get", "core.sshCommand"], capture_output=True, check=False)  # noqa: S607
    return configured.returncode == 0


def environment(login: GitLogin | None = None) -> dict[str, str]:
    """Return the user's environment, changed so that git never prompts and always answers in English.

    It also carries the `login`: other users of the machine see the arguments of git, but not its environment.
    """
    own = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    own |= {"GIT_TERMINAL_PROMPT": "0", "GCM_INTERACTIVE": "never", "LC_ALL": "C", "LANGUAGE": "C"}
    if not _ssh_is_configured():
        # Without BatchMode ssh would prompt for a passphrase, and the worker would wait for it unnoticed. Without the
        # other options it would wait for a dead server until the system's own timeout.
        own["GIT_SSH_COMMAND"] = (
            "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=5 -oServerAliveCountMax=4"
        )
    return own if login is None else own | _login_variables(login, own)


def _login_variables(login: GitLogin, own: Mapping[str, str]) -> dict[str, str]:
    settings = [("credential.username", login.user)]
    if login.password:
        # The empty helper removes those of the user, which may know another login for this host.
        settings += [("credential.helper", ""), ("credential.helper", _LOGIN_HELPER)]
    known = own.get("GIT_CONFIG_COUNT", "")
    first = int(known) if known.isdecimal() else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(settings)), _USER: login.user, _PASSWORD: login.password}
    for number, (name, value) in enumerate(settings, first):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
