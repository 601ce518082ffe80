"""The git URL of a queue URL, and the folder of this machine's mirror."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from longshore.errors import SettingsError
from longshore.system.cache_dir import cache_dir
from longshore.url import mask_url, mask_urls

_SCHEMES = {"git+https": "https", "git+http": "http", "git+ssh": "ssh", "git+file": "file", "https": "https"}


class GitLogin(NamedTuple):
    """A user name, or a token in its place, and a password."""

    user: str
    password: str
    """Empty if the URL has none: then git asks the user's own credential helpers for it."""


class RepositoryLocation:
    """One repository: its URL for git, and its URL for messages."""

    def __init__(self, queue_url: str) -> None:
        self.shown = masked(mask_url(queue_url))
        """The URL for messages: without its password or token."""
        parts = urlsplit(queue_url)
        scheme = _SCHEMES.get(parts.scheme)
        if scheme is None or not parts.path.strip("/"):
            raise SettingsError(
                f"'{self.shown}' names no git repository. Write git+https://host/team/queue.git, "
                "git+ssh://git@host/team/queue.git, or git+file:///path/to/queue.git."
            )
        if parts.query or parts.fragment:
            raise SettingsError(
                f"'{self.shown}' has options, but a git queue takes none. Remove everything after '.git'."
            )
        if scheme == "file" and parts.netloc:
            raise SettingsError(
                f"'{self.shown}' has a host before its path. Write git+file:///path with three slashes for an "
                "absolute path, or git+ssh:// for a repository on another machine."
            )
        if scheme != "file" and not parts.hostname:
            raise SettingsError(f"'{self.shown}' names no host. Write git+{scheme}://host/path/to/queue.git.")
        login, _, host = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        # ssh takes its user from the URL, and never a password.
        self.git_url = urlunsplit(
            (scheme, f"{user}@{host}" if user and scheme == "ssh" else host or parts.netloc, parts.path, "", "")
        )
        """The URL for git, without a password or token: other users of the machine see the arguments of a program."""
        self.login = GitLogin(unquote(user), unquote(password)) if scheme in ("http", "https") and login else None
        """The login in the queue URL, which git gets by its environment; None if the URL has none."""
        self.path: Path | None = Path(unquote(parts.path)) if scheme == "file" else None
        """The repository's folder if it is on this machine."""

        self.by_ssh = scheme == "ssh"
        """Whether git uses ssh to reach it."""

    def mirror(self, cache: Path) -> Path:
        """Return the folder of this machine's mirror. It does not depend on the login in the URL."""
        parts = urlsplit(self.git_url)
        known = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
        name = re.sub(r"[^A-Za-z0-9]+", "-", Path(parts.path).name).strip("-")[:40]
        return cache / f"{name}-{hashlib.sha256(known.encode()).hexdigest()[:16]}.git"


def masked(text: str) -> str:
    """Return the text with the secrets in its URLs masked. In an HTTP URL, a user name alone is usually a token."""
    return re.sub(r"(https?://)[^/@:\s]+@", r"\1***@", mask_urls(text), flags=re.IGNORECASE)


def cache_folder() -> Path:
    """Return the folder of the mirrors: a cache, which may be deleted while no worker runs."""
    return cache_dir() / "git"
