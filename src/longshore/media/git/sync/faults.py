"""What git says, in the words of `longshore.errors`: which repository, what is wrong, what to do."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from longshore.errors import QueueError, QueueFullError, QueueUnavailableError, ReadOnlyQueueError
from longshore.media.git.location import RepositoryLocation, masked

# In this order: a message may hold several of these, and the first that fits is the one that explains the others.
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
_STRANGER = re.compile(r"host key verification failed|no .* host key is known", re.IGNORECASE)
_IMPOSTOR = re.compile(r"host identification has changed|host key .* has changed", re.IGNORECASE)
_ABSENT = re.compile(
    r"repository .*not found|does not appear to be a git repository|not a git repository|returned error: 404"
    r"|no such file or directory|project you were looking for could not be found|does not exist",
    re.IGNORECASE,
)
_OWNER = re.compile(r"dubious ownership", re.IGNORECASE)
_RATE = re.compile(r"returned error: 429|rate limit|too many requests", re.IGNORECASE)

# How git says, on a push, that someone else was faster.
_RACE = re.compile(
    r"\[rejected\]|non-fast-forward|fetch first|stale info|cannot lock ref|incorrect old value|failed to update ref"
    r"|reference already exists|failed to lock",
    re.IGNORECASE,
)

# What stands around the line that tells.
_NOISE = re.compile(
    r"hint:|To |From |Please make sure you have|and the repository exists|fatal: Could not read from remote repository"
    r"|[@\s*]+$",
    re.IGNORECASE,
)


def lost_race(said: str) -> bool:
    """Whether a push was refused only because the branch had moved on."""
    return bool(_RACE.search(said)) and not _FULL.search(said)


def no_git() -> QueueError:
    """There is no git on this machine."""
    return QueueError(
        "The program 'git' was not found, and a git queue needs it. Install it (Debian: apt install git; macOS: "
        "xcode-select --install; Windows: git-scm.com), then open a new terminal."
    )


def disk_full(where: object) -> QueueFullError:
    """The disk under the mirror, or under the repository, is full."""
    return QueueFullError(
        f"The disk under '{where}' is full. Nothing was lost: what could not be written was not done. "
        "Make room and go on."
    )


def unusable(mirror: Path, error: OSError) -> Exception:
    """What is wrong with the folder of the mirror; the same error where it is about something else."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _mirror_full(mirror)
    if isinstance(error, FileNotFoundError):
        return mirror_gone(mirror)
    if isinstance(error, PermissionError | NotADirectoryError | FileExistsError) or error.errno == errno.EROFS:
        return _mirror_closed(mirror, error.strerror or str(error))
    return error


def unanswered(location: RepositoryLocation, seconds: float) -> QueueUnavailableError:
    """The remote was reached or not, and says nothing."""
    return QueueUnavailableError(
        f"'{location.shown}' has not answered for {seconds:.0f} s. Check the network, the proxy and the server: "
        f"git ls-remote '{masked(location.git_url)}' should answer at once."
    )


def translate(said: str, location: RepositoryLocation, *, into: Path | None = None) -> QueueError:
    """The error to raise for what git said when it failed.

    `into` is the mirror, where git was to bring something there; without it, git was to write to the repository.
    """
    said = masked(said)
    if into is not None and (own := _of_mirror(said, into)) is not None:
        return own
    return _of_access(said, location, reading=into is not None) or _of_remote(said, location)


def _of_mirror(said: str, mirror: Path) -> QueueError | None:
    """What git could not do in the mirror. What the remote complains of, it marks as such."""
    own = "\n".join(line for line in said.splitlines() if not line.startswith("remote:"))
    if _FULL.search(own):
        return _mirror_full(mirror)
    if str(mirror) in own and re.search(r"permission|read-only|unable to create", own, re.IGNORECASE):
        return _mirror_closed(mirror, _last_lines(own))
    return None


def _of_access(said: str, location: RepositoryLocation, *, reading: bool) -> QueueError | None:
    """Who may not do what, and by whose word."""
    where, url, detail = location.shown, masked(location.git_url), _last_lines(said)
    if _FULL.search(said) or _RATE.search(said):
        return None
    if _IMPOSTOR.search(said):
        return QueueError(
            f"The server of '{where}' is not the one that ssh knows by this name ({detail}). If its owner says that it "
            f"has a new key, let ssh forget the old one (ssh-keygen -R HOST) and connect once by hand: "
            f"git ls-remote '{url}'"
        )
    if _STRANGER.search(said):
        return QueueError(
            f"ssh does not know the server of '{where}' yet ({detail}). Connect once by hand, compare its key with the "
            f"one its owner names, and say yes: git ls-remote '{url}'"
        )
    if _LOGIN.search(said):
        fix = (
            "ssh needs a key that the server knows and that asks for no passphrase, or that an agent holds (ssh-add)"
            if location.by_ssh
            else "A token or a credential helper helps"
        )
        return QueueError(
            f"'{where}' did not accept the login ({detail}). {fix}. Check that this works by hand, without being asked "
            f"for a password: git ls-remote '{url}'"
        )
    if not _FORBIDDEN.search(said):
        return None
    if reading:
        return QueueError(
            f"You may not read '{where}' ({detail}). Check the address and whose login git uses (git ls-remote "
            f"'{url}'); a token needs the right to read and write the repository's contents."
        )
    return ReadOnlyQueueError(
        f"You may not write to '{where}' ({detail}). Ask its owner for write access, and that branches whose names "
        "start with 'longshore' are not protected."
    )


def _of_remote(said: str, location: RepositoryLocation) -> QueueError:
    """What is the matter with the repository or its server."""
    where, detail = location.shown, _last_lines(said)
    if _FULL.search(said):
        return disk_full(where)
    if _RATE.search(said):
        return QueueUnavailableError(
            f"The server of '{where}' asks for fewer requests ({detail}). Wait a little; use fewer machines or larger "
            "batches if this goes on."
        )
    if _OWNER.search(said):
        return QueueError(
            f"git does not trust '{where}', for it belongs to another user ({detail}). Fix: git config --global --add "
            f"safe.directory '{location.path or where}'"
        )
    if _ABSENT.search(said):
        return QueueError(
            f"There is no git repository at '{where}', or you may not see it ({detail}). Check the address; an empty "
            "repository is made with: git init --bare PATH, or on the web page of your host."
        )
    return QueueUnavailableError(
        f"'{where}' does not answer now ({detail}). Check the network, the proxy and the address."
    )


def mirror_gone(mirror: Path) -> QueueError:
    """Somebody has deleted the mirror while it was in use."""
    return QueueError(
        f"This machine's mirror of the repository, '{mirror}', was deleted or damaged while it was in use. It is a "
        "cache: delete what is left of it, start again, and it is made anew. The queue itself is not touched."
    )


def _mirror_full(mirror: Path) -> QueueFullError:
    return QueueFullError(
        f"The disk under '{mirror}', this machine's mirror of the repository, is full. Nothing was lost: what could "
        "not be written was not done. Make room and go on, or set XDG_CACHE_HOME to a folder on another disk."
    )


def _mirror_closed(mirror: Path, reason: str) -> ReadOnlyQueueError:
    return ReadOnlyQueueError(
        f"This machine's mirror of the repository cannot be kept in the cache folder '{mirror.parent}' ({reason}). "
        "Give yourself the right to write there, or set XDG_CACHE_HOME to a folder of your own."
    )


def _last_lines(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _NOISE.match(line)]
    telling = [line for line in lines if re.match(r"(fatal|error|remote|ssh|!|git)\b|.*denied", line, re.IGNORECASE)]
    return "; ".join(telling[:3] or lines[-3:])[:400] or "no reason given"
