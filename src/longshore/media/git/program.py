"""The user's own git, run safely: with their credentials, proxies and ssh agents. It asks nothing and runs no hook."""

from __future__ import annotations

import errno
import os
import subprocess
from datetime import timedelta
from functools import cache
from pathlib import Path

from longshore.errors import QueueUnavailableError
from longshore.media.git.faults import disk_full, no_git, translate
from longshore.media.git.location import Location

PATIENCE = timedelta(minutes=2)
"""After this long a conversation with the remote is given up. A push is a few kilobytes."""

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
    "http.lowSpeedLimit=100",
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


class Program:
    """git, at work in one folder for one remote."""

    def __init__(self, folder: Path, location: Location) -> None:
        self.folder = folder
        self.location = location

    def run(self, *arguments: str) -> str:
        """What the command says. Raises what `faults.translate` makes of its complaint when it fails."""
        code, said = self.attempt(*arguments)
        if code != 0:
            raise translate(said, self.location)
        return said

    def attempt(self, *arguments: str) -> tuple[int, str]:
        """The command's exit code, and all that it says."""
        try:
            done = subprocess.run(  # noqa: S603 - a list of arguments, never a shell
                command(self.folder, *arguments),
                env=environment(),
                stdin=subprocess.DEVNULL,
                # Ctrl-C on the terminal is for the worker, which drains; it must not cut off a push.
                start_new_session=True,
                capture_output=True,
                check=False,
                timeout=PATIENCE.total_seconds(),
            )
        except FileNotFoundError as error:
            raise no_git() from error
        except subprocess.TimeoutExpired as error:
            raise QueueUnavailableError(
                f"'{self.location.shown}' took longer than {PATIENCE.total_seconds():.0f} s to answer. "
                "Check the network; it will be tried again."
            ) from error
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise disk_full(self.folder) from error
            raise
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


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
        # Without this ssh asks for a passphrase on the terminal, and a worker would wait for it unseen.
        own["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"
    return own
