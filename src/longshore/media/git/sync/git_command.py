"""The user's own git, run safely: with their credentials, proxies and ssh agents. It asks nothing and runs no hook."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
import time
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import IO

from longshore.media.git.location import RepositoryLocation
from longshore.media.git.sync.faults import no_git, translate, unanswered
from longshore.system.processes import end_group, new_group_flags

SILENCE = timedelta(seconds=15)
"""A remote that has not begun to answer after this long is given up."""
SILENCE_AT_WORK = timedelta(seconds=60)
"""So is one that falls silent for this long later: it may have to unpack and check what it was sent."""
LONGEST = timedelta(minutes=30)
"""No command takes longer than this, whatever is transferred."""
_PATIENCE = 2.0
"""Seconds that git has to end when it is asked to."""
_TALKS = frozenset({"fetch", "push", "ls-remote"})
"""The commands that talk to the remote."""

# Whatever a repository or a configuration says: no hook, no program named by a URL, no work done behind our back, and
# no time lost on deltas between small files.
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
    # As patient as with a server that is at work: a hook may take its time, and sends nothing meanwhile.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
_OPTIONS = tuple(part for setting in _SETTINGS for part in ("-c", setting))
# Set by git for its own hooks; they would lead us into another repository.
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


# What git and the remote's git tell of how far they are: a sign of life, and no part of what they say.
_PROGRESS = re.compile(
    r"(remote: )?([A-Z][a-z]+( [a-z]+)*: +\d.*|Total \d+ \(.*|Delta compression using .*)?\s*", re.ASCII
)


class GitCommand:
    """git, at work in one folder for one remote."""

    def __init__(self, folder: Path, location: RepositoryLocation) -> None:
        self.folder = folder
        self.location = location
        self.patience = SILENCE
        """For how long the remote may be silent before its first word."""

    def run(self, *arguments: str) -> str:
        """What the command says. Raises what `faults.translate` makes of its complaint when it fails."""
        code, said = self.attempt(*arguments)
        if code != 0:
            raise translate(said, self.location, into=self.folder)
        return said

    def attempt(self, *arguments: str) -> tuple[int, str]:
        """The command's exit code, and all that it says. `QueueUnavailableError` if the remote falls silent."""
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of arguments, never a shell
                command(self.folder, *arguments),
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C on the terminal is for the worker, which drains; it must not cut off a push.
                start_new_session=True,
                creationflags=new_group_flags(),
            )
        except FileNotFoundError as error:
            raise no_git() from error
        first, later = (self.patience, SILENCE_AT_WORK) if arguments[0] in _TALKS else (LONGEST, LONGEST)
        try:
            answer, told = _listen(process, first.total_seconds(), later.total_seconds())
        except TimeoutError as error:
            # Asked first, for git takes its lock files away.
            end_group(process, _PATIENCE)
            raise unanswered(self.location, float(str(error))) from None
        process.wait()
        lines = (line for line in re.split(r"[\r\n]", told) if not _PROGRESS.fullmatch(line))
        return process.returncode, answer + "\n".join(lines)


def _listen(process: subprocess.Popen[bytes], first: float, later: float) -> tuple[str, str]:
    """What a process writes, to its end. `TimeoutError` with the seconds of its silence if that lasts too long."""
    chunks: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    for number, stream in enumerate(streams):
        threading.Thread(target=_pump, args=(number, stream, chunks), daemon=True).start()
    heard = [b"", b""]
    last, until, allowed = time.monotonic(), time.monotonic() + LONGEST.total_seconds(), first
    while streams:
        try:
            number, chunk = chunks.get(timeout=0.5)
        except queue.Empty:
            silence = time.monotonic() - last
            if silence <= allowed and time.monotonic() <= until:
                continue
            if process.poll() is not None:
                break  # it has ended, and something that it left in the background has its streams
            raise TimeoutError(silence) from None
        if chunk:
            heard[number] += chunk
            last, allowed = time.monotonic(), later
        else:
            streams.pop()
    return heard[0].decode(errors="replace"), heard[1].decode(errors="replace")


def _pump(number: int, stream: IO[bytes], into: queue.SimpleQueue[tuple[int, bytes]]) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), 1 << 16):
            into.put((number, chunk))
    into.put((number, b""))


def command(folder: Path, *arguments: str) -> list[str]:
    """The command line of git in a folder."""
    return ["git", *_OPTIONS, f"--git-dir={folder}", *arguments]


@cache
def _ssh_is_chosen() -> bool:
    if "GIT_SSH" in os.environ or "GIT_SSH_COMMAND" in os.environ:
        return True
    asked = subprocess.run(["git", "config", "--get", "core.sshCommand"], capture_output=True, check=False)  # noqa: S607
    return asked.returncode == 0


def environment() -> dict[str, str]:
    """The user's environment, but for what would make git ask a question or answer in another language."""
    own = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    own |= {"GIT_TERMINAL_PROMPT": "0", "GCM_INTERACTIVE": "never", "LC_ALL": "C", "LANGUAGE": "C"}
    if not _ssh_is_chosen():
        # Without the first ssh asks for a passphrase on the terminal, and a worker would wait for it unseen; without
        # the others it waits for a server that has gone for as long as the system does.
        own["GIT_SSH_COMMAND"] = (
            "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=5 -oServerAliveCountMax=4"
        )
    return own
