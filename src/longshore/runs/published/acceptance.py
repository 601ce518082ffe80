"""The versions that this user has accepted, each for one queue.

It is kept in a file of the user, never in the queue, so no one who writes to a queue can accept anything. A version is
accepted for one queue: its jobs decide what the code does.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from longshore.errors import PublishedCodeError
from longshore.media import full_url, scheme_of
from longshore.media.directory.location import path_of as folder_of
from longshore.media.sqlite.location import path_of as file_of
from longshore.stored import UNFIT
from longshore.system.atomic_file import write_atomically
from longshore.system.cache_dir import config_dir
from longshore.system.file_lock import FileLock
from longshore.system.private_files import make_private, only_owner_writes

_ALIASES = {"postgres": "postgresql"}
_SELECTING = frozenset({"schema", "branch", "host", "port", "database", "dbname", "service", "options"})
"""The options of a URL that select another server, or one of several queues at an address."""
_USUAL_PORTS = {"http": 80, "https": 443, "git+http": 80, "git+https": 443, "git+ssh": 22, "postgresql": 5432}


class AcceptedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one queue that may run here."""

    queue: str
    fingerprint: str
    author: str = ""
    at: float = 0.0
    """Seconds since 1970, by the clock of this machine."""


class _AcceptedFile(msgspec.Struct, frozen=True):
    accepted: tuple[AcceptedVersion, ...] = ()


class AcceptedVersions:
    """The versions that this user has accepted, in a file that only they can write."""

    def __init__(self, path: Path | None = None) -> None:
        """`path` is the file; by default, the one in the user's folder of configuration."""
        self.path = path or config_dir() / "accepted-code.json"

    def has(self, queue: str, fingerprint: str) -> bool:
        """Return whether a version was accepted for a queue, given by its identity."""
        return any(each.queue == queue and each.fingerprint == fingerprint for each in self._read().accepted)

    def latest(self, queue: str) -> AcceptedVersion | None:
        """Return the version of a queue that was accepted last; None if there is none."""
        return next((each for each in reversed(self._read().accepted) if each.queue == queue), None)

    def add(self, accepted: AcceptedVersion) -> None:
        """Accept a version from now on."""
        make_private(self.path.parent)
        lock = FileLock(self.path.with_suffix(".lock"), private=True)
        lock.acquire()
        try:
            others = [
                each
                for each in self._read().accepted
                if (each.queue, each.fingerprint) != (accepted.queue, accepted.fingerprint)
            ]
            content = msgspec.json.format(msgspec.json.encode(_AcceptedFile((*others, accepted))), indent=2)
            write_atomically(self.path, content, durable=True, private=True)
        except OSError as error:
            raise PublishedCodeError(f"{self.path} cannot be written: {error.strerror}.") from error
        finally:
            lock.release()

    def _read(self) -> _AcceptedFile:
        try:
            content = self.path.read_bytes()
            self._check_private()
        except FileNotFoundError:
            return _AcceptedFile()
        except OSError as error:
            raise PublishedCodeError(f"{self.path} cannot be read: {error.strerror}.") from error
        try:
            return msgspec.json.decode(content, type=_AcceptedFile)
        except UNFIT as error:
            raise PublishedCodeError(
                f"{self.path}, which lists the code that may run here, cannot be read: {error}. Remove it to begin "
                "without any."
            ) from error

    def _check_private(self) -> None:
        if not only_owner_writes(self.path):
            raise PublishedCodeError(
                f"Others can write to {self.path}, which lists the code that may run here. See that its lines are "
                f"yours, then: chmod 600 {self.path}"
            )


def queue_identity(url: str) -> str:
    """Return what identifies a queue on this machine: its address, without user, password and options."""
    spelled = full_url(url)
    scheme = _ALIASES.get(scheme_of(spelled), scheme_of(spelled))
    if scheme == "dir":
        return f"dir://{folder_of(spelled).resolve()}"
    if scheme == "sqlite":
        return f"sqlite:///{file_of(spelled).resolve()}"
    parts = urlsplit(spelled)
    # A database may have several hosts, each with its port.
    hosts = parts.netloc.rpartition("@")[2].lower().removesuffix(f":{_USUAL_PORTS.get(scheme)}")
    chosen = urlencode(sorted(pair for pair in parse_qsl(parts.query) if pair[0] in _SELECTING))
    return f"{scheme}://{hosts}{parts.path.rstrip('/')}{'?' if chosen else ''}{chosen}"
