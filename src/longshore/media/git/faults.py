"""What git says, in the words of `longshore.errors`: which repository, what is wrong, what to do."""

from __future__ import annotations

import re

from longshore.errors import QueueError, QueueFullError, QueueUnavailableError, ReadOnlyQueueError
from longshore.media.git.location import Location, masked

# In this order: a message may hold several of these, and the first that fits is the one that explains the others.
_FULL = re.compile(r"no space left on device|disk quota exceeded|file too large|disk is full", re.IGNORECASE)
_FORBIDDEN = re.compile(
    r"permission to .* denied|insufficient permission|unable to create temporary file|write access|read-only"
    r"|hook declined|protected branch|returned error: 403|not allowed to push|deny updating|remote unpack failed",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"authentication failed|could not read (username|password)|permission denied \(|terminal prompts disabled"
    r"|returned error: 401|host key verification failed|invalid credentials|access denied",
    re.IGNORECASE,
)
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


def translate(said: str, location: Location) -> QueueError:
    """The error to raise for what git said when it failed."""
    said = masked(said)
    where, detail = location.shown, _last_lines(said)
    if _FULL.search(said):
        return disk_full(where)
    if _RATE.search(said):
        return QueueUnavailableError(
            f"The server of '{where}' asks for fewer requests ({detail}). It will be tried again; use fewer machines "
            "or larger batches if this goes on."
        )
    if _LOGIN.search(said):
        return QueueError(
            f"'{where}' did not accept the login ({detail}). Check that this works by hand, without being asked for a "
            f"password: git ls-remote '{masked(location.git_url)}'. A token, an ssh key or a credential helper helps."
        )
    if _FORBIDDEN.search(said):
        return ReadOnlyQueueError(
            f"You may not write to '{where}' ({detail}). Ask its owner for write access, and that branches whose names "
            "start with 'longshore' are not protected."
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
        f"'{where}' does not answer now ({detail}). Check the network, the proxy and the address; it will be "
        "tried again."
    )


def _last_lines(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(("hint:", "To "))]
    telling = [line for line in lines if re.match(r"(fatal|error|remote|ssh|!|git)\b|.*denied", line, re.IGNORECASE)]
    return "; ".join((telling or lines)[:3])[:400] or "no reason given"
