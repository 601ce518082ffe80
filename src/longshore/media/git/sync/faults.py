"""Translates git's output into `longshore.errors`: which repository, what is wrong, what to do."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from longshore.errors import MissingQueueError, QueueError, QueueFullError, QueueUnavailableError, ReadOnlyQueueError
from longshore.media.git.location import RepositoryLocation, masked

_MOST_READ, _LONGEST_LINE = 64 << 10, 1_000
"""Characters of the output, and of each of its lines."""
# `translate` checks these in a fixed order: a message may match several, and the first match is the real cause.
_FULL = re.compile(r"no space left on device|disk quota exceeded|file too large|disk is full", re.IGNORECASE)
_FORBIDDEN = re.compile(
    r"permission to .* denied|insufficient permission|unable to create temporary file|write access|read-only"
    r"|hook declined|protected branch|returned error: 403|not allowed to push|deny updating|remote unpack failed",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"authentication failed|could not read (username|password)|permission denied \(|terminal prompts disabled"
    r"|returned error: 401|invalid credentials|access denied",
    re.IGNORECASE,
)
_UNKNOWN_HOST = re.compile(r"host key verification failed|no .* host key is known", re.IGNORECASE)
_CHANGED_HOST_KEY = re.compile(r"host identification has changed|host key .* has changed", re.IGNORECASE)
_ABSENT = re.compile(
    r"repository .*not found|does not appear to be a git repository|not a git repository|returned error: 404"
    r"|no such file or directory|project you were looking for could not be found|does not exist",
    re.IGNORECASE,
)
_OWNER = re.compile(r"dubious ownership", re.IGNORECASE)
_RATE = re.compile(r"returned error: 429|rate limit|too many requests", re.IGNORECASE)

# Git's messages for a push that lost against another one.
_RACE = re.compile(
    r"\[rejected\]|non-fast-forward|fetch first|stale info|cannot lock ref|incorrect old value|failed to update ref"
    r"|reference already exists|failed to lock",
    re.IGNORECASE,
)

# Lines around the one with the cause.
_NOISE = re.compile(
    r"hint:|To |From |Please make sure you have|and the repository exists|fatal: Could not read from remote repository"
    r"|[@\s*]+$",
    re.IGNORECASE,
)


def lost_race(output: str) -> bool:
    """Return whether a push was refused only because the branch had moved."""
    return bool(_RACE.search(output)) and not _FULL.search(output)


def no_git() -> QueueError:
    """Return the error for a machine without git."""
    return QueueError(
        "The program 'git' was not found, and a git queue needs it. Install it (Debian: apt install git; macOS: "
        "xcode-select --install; Windows: git-scm.com), then open a new terminal."
    )


def disk_full(where: object) -> QueueFullError:
    """Return the error for a full disk under the repository."""
    return QueueFullError(f"The disk under '{where}' is full. Nothing was lost. Free some space and try again.")


def unusable(mirror: Path, error: OSError) -> Exception:
    """Return the `QueueError` for an `OSError` in the mirror; the same error if it is about something else."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _mirror_full(mirror)
    if isinstance(error, FileNotFoundError):
        return mirror_gone(mirror)
    if isinstance(error, PermissionError | NotADirectoryError | FileExistsError) or error.errno == errno.EROFS:
        return _mirror_closed(mirror, error.strerror or str(error))
    return error


def unanswered(location: RepositoryLocation, seconds: float) -> QueueUnavailableError:
    """Return the error for a remote that sends nothing, reachable or not."""
    return QueueUnavailableError(
        f"'{location.shown}' has not answered for {seconds:.0f} s. Check the network, the proxy and the server: "
        f"git ls-remote '{masked(location.git_url)}' should answer at once."
    )


def fetch_too_large(location: RepositoryLocation, mirror: Path, written: int) -> QueueFullError:
    """Return the error for a fetch that was ended because it would have filled the disk."""
    return QueueFullError(
        f"'{location.shown}' sends more than half of the free space of the disk under '{mirror}', this machine's "
        f"mirror of the repository: {written / 1e6:,.0f} MB by now. The fetch was ended, and its files were removed. "
        "If large files were pushed to the branch of the queue, remove them there. If not, free some space, or set "
        "XDG_CACHE_HOME to a folder on another disk."
    )


def too_much_output(location: RepositoryLocation) -> QueueError:
    """Return the error for a remote that lists too much."""
    return QueueError(
        f"'{location.shown}' lists more branches than any queue has. Give the queue a repository of its own."
    )


def translate(output: str, location: RepositoryLocation, *, into: Path | None = None) -> QueueError:
    """Return the error to raise for the output of a failed git command.

    `into` is the mirror if the command was to write to it (a fetch); without it, the command was a push.
    """
    # A remote chooses this text. Some patterns look through the whole line once for each time they begin to match.
    output = "\n".join(line[:_LONGEST_LINE] for line in masked(output[-_MOST_READ:]).splitlines())
    if into is not None and (own := _of_mirror(output, into)) is not None:
        return own
    return _of_access(output, location, reading=into is not None) or _of_remote(output, location)


def _of_mirror(output: str, mirror: Path) -> QueueError | None:
    """Return the error for a problem with the mirror, or None. Git prefixes the remote's messages with "remote:"."""
    own = "\n".join(line for line in output.splitlines() if not line.startswith("remote:"))
    if _FULL.search(own):
        return _mirror_full(mirror)
    if str(mirror) in own and re.search(r"permission|read-only|unable to create", own, re.IGNORECASE):
        return _mirror_closed(mirror, _last_lines(own))
    return None


def _of_access(output: str, location: RepositoryLocation, *, reading: bool) -> QueueError | None:
    """Return the error for a problem with the login or with permissions, or None."""
    where, url, detail = location.shown, masked(location.git_url), _last_lines(output)
    if _FULL.search(output) or _RATE.search(output):
        return None
    if _CHANGED_HOST_KEY.search(output):
        return QueueError(
            f"The server of '{where}' is not the one that ssh knows by this name ({detail}). If its owner confirms a "
            f"new key, remove the old one (ssh-keygen -R HOST) and connect once by hand: git ls-remote '{url}'"
        )
    if _UNKNOWN_HOST.search(output):
        return QueueError(
            f"ssh does not know the server of '{where}' yet ({detail}). Connect once by hand, compare its key with the "
            f"one its owner published, and answer yes: git ls-remote '{url}'"
        )
    if _LOGIN.search(output):
        fix = (
            "ssh needs a key that the server knows, without a passphrase or loaded in an agent (ssh-add)"
            if location.by_ssh
            else "Use a token or a credential helper"
        )
        return QueueError(
            f"'{where}' did not accept the login ({detail}). {fix}. Check that this command works without a prompt: "
            f"git ls-remote '{url}'"
        )
    if not _FORBIDDEN.search(output):
        return None
    if reading:
        return QueueError(
            f"You may not read '{where}' ({detail}). Check the address and whose login git uses (git ls-remote "
            f"'{url}'); a token needs permission to read and write the repository's contents."
        )
    return ReadOnlyQueueError(
        f"You may not write to '{where}' ({detail}). Ask its owner for write access, and to remove the protection of "
        "branches whose names start with 'longshore'."
    )


def _of_remote(output: str, location: RepositoryLocation) -> QueueError:
    """Return the error for a problem with the repository or its server."""
    where, detail = location.shown, _last_lines(output)
    if _FULL.search(output):
        return disk_full(where)
    if _RATE.search(output):
        return QueueUnavailableError(
            f"The server of '{where}' limits the rate of requests ({detail}). Wait a little; use fewer machines or "
            "larger batches if this continues."
        )
    if _OWNER.search(output):
        return QueueError(
            f"git does not trust '{where}', because it belongs to another user ({detail}). Fix: git config --global "
            f"--add safe.directory '{location.path or where}'"
        )
    if _ABSENT.search(output):
        return MissingQueueError(
            f"There is no git repository at '{where}', or you may not see it ({detail}). Check the address, or create "
            "an empty repository with: git init --bare PATH, or on the website of your git host."
        )
    return QueueUnavailableError(
        f"'{where}' does not answer now ({detail}). Check the network, the proxy and the address."
    )


def mirror_gone(mirror: Path) -> QueueError:
    """Return the error for a mirror that was deleted while it was in use."""
    return QueueError(
        f"This machine's mirror of the repository, '{mirror}', was deleted or damaged while it was in use. It is a "
        "cache: delete the rest of it and start again to create a new one. The queue itself is not affected."
    )


def set_back(location: RepositoryLocation, branch: str, confirmed: str, mirror: Path) -> QueueError:
    """Return the error for a branch that no longer contains a commit which this machine has seen on it."""
    return QueueError(
        f"The branch '{branch}' of '{location.shown}' was set back: the commit {confirmed[:10]}, which this machine "
        "has seen on it, is no longer part of it. Jobs that were finished since would be done again, so nothing was "
        f"changed. To put the lost commits back: git --git-dir '{mirror}' push --force '{masked(location.git_url)}' "
        f"{confirmed}:refs/heads/{branch}. To continue with the branch as it is now: stop the workers of this machine "
        "and delete that folder."
    )


def _mirror_full(mirror: Path) -> QueueFullError:
    return QueueFullError(
        f"The disk under '{mirror}', this machine's mirror of the repository, is full. Nothing was lost. "
        "Free some space, or set XDG_CACHE_HOME to a folder on another disk."
    )


def _mirror_closed(mirror: Path, reason: str) -> ReadOnlyQueueError:
    return ReadOnlyQueueError(
        f"This machine's mirror of the repository cannot be kept in the cache folder '{mirror.parent}' ({reason}). "
        "Give yourself write permission there, or set XDG_CACHE_HOME to a folder of your own."
    )


def _last_lines(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not _NOISE.match(line)]
    telling = [line for line in lines if re.match(r"(fatal|error|remote|ssh|!|git)\b|.*denied", line, re.IGNORECASE)]
    return "; ".join(telling[:3] or lines[-3:])[:400] or "no reason given"
