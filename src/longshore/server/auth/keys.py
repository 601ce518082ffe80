"""API keys: made, listed and revoked by the owner of the server, checked with every request.

A key is `lsk_ID_SECRET`. The file has only the hash of the secret. The secret is 256 random bits, so a fast hash is
enough: there is nothing to guess. The file belongs to the user who serves; a running server notices a change of it with
the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec

from longshore.errors import NotFoundError, SettingsError, UsageError
from longshore.stored import UNFIT
from longshore.system.atomic_file import write_atomically
from longshore.system.file_lock import FileLock
from longshore.system.private_files import make_private

_PREFIX = "lsk"


class Scope(StrEnum):
    """A right that a key has."""

    SUBMIT = "submit"
    WORK = "work"
    READ = "read"
    ADMIN = "admin"
    """Everything, on all runs."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key, as it is stored."""

    id: str
    name: str
    sha256: str
    """The hash of its secret."""
    scopes: tuple[Scope, ...]
    runs: tuple[str, ...] | None = None
    """The runs that it is limited to; None for all."""
    kinds: tuple[str, ...] | None = None
    """The kinds that it is limited to; None for all."""
    made_at: float
    revoked_at: float | None = None

    def may(self, scope: Scope) -> bool:
        """Return whether the key has a scope. An admin has all."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    keys: tuple[ApiKey, ...] = ()
    secret: str = ""
    """The secret that lease tokens are signed with."""


class KeyStore:
    """The keys of one server, in a file that only its user can read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_as: tuple[int, int, int] | None = None
        self._file = _KeyFile()
        self._by_id: dict[str, ApiKey] = {}

    @classmethod
    def in_folder(cls, folder: Path) -> KeyStore:
        """Return the keys of the server that runs from a data folder."""
        return cls(folder / "server" / "keys.json")

    @property
    def signing_secret(self) -> bytes:
        """The secret that lease tokens are signed with. It is stored with the keys, so tokens outlive the process."""
        self._load()
        return bytes.fromhex(self._file.secret)

    def all(self) -> tuple[ApiKey, ...]:
        """Return all keys, those that were revoked included, oldest first."""
        self._load()
        return self._file.keys

    def add(
        self,
        name: str,
        scopes: Iterable[Scope],
        now: float,
        *,
        runs: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
    ) -> str:
        """Make a key, and return it in full: it cannot be shown again."""
        its_scopes = tuple(dict.fromkeys(scopes))
        if not its_scopes:
            raise UsageError("A key needs at least one scope: submit, work, read or admin.")
        if Scope.ADMIN in its_scopes and (runs is not None or kinds is not None):
            raise UsageError("An admin key reaches everything: give it no --run and no --kind, or other scopes.")
        secret = secrets.token_urlsafe(32)
        key = ApiKey(
            id=secrets.token_hex(4),
            name=name,
            sha256=_hash(secret),
            scopes=its_scopes,
            runs=None if runs is None else tuple(runs),
            kinds=None if kinds is None else tuple(kinds),
            made_at=now,
        )
        with self._changing():
            signing = self._file.secret or secrets.token_hex(32)
            self._store(_KeyFile(keys=(*self._file.keys, key), secret=signing))
        return f"{_PREFIX}_{key.id}_{secret}"

    def revoke(self, name: str, now: float) -> ApiKey:
        """Revoke the key with this id or name, and return it. Raise `NotFoundError` if there is none."""
        with self._changing():
            found = [key for key in self._file.keys if key.revoked_at is None and name in (key.id, key.name)]
            if not found:
                raise NotFoundError(f"There is no key '{name}'. `longshore keys list` shows them all.")
            if len(found) > 1:
                raise UsageError(
                    f"{len(found)} keys are called '{name}': revoke one by its id, from `longshore keys list`."
                )
            revoked = msgspec.structs.replace(found[0], revoked_at=now)
            keys = tuple(revoked if key.id == revoked.id else key for key in self._file.keys)
            self._store(msgspec.structs.replace(self._file, keys=keys))
            return revoked

    def check(self, key: str) -> ApiKey | None:
        """Return the key if it is one of ours and not revoked."""
        self._load()
        prefix, _, rest = key.partition("_")
        key_id, _, secret = rest.partition("_")
        found = self._by_id.get(key_id)
        # Compared in constant time also if there is no such key, so that nothing is learned from the time it takes.
        right = hmac.compare_digest(_hash(secret), found.sha256 if found is not None else _hash(""))
        return found if right and prefix == _PREFIX and found is not None and found.revoked_at is None else None

    def valid(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, unless it was revoked."""
        self._load()
        found = self._by_id.get(key_id)
        return found if found is not None and found.revoked_at is None else None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Within, no other process changes the file, and what it has is known."""
        make_private(self.path.parent)
        lock = FileLock(self.path.with_suffix(".lock"), private=True)
        lock.acquire()
        try:
            self._load()
            yield
        finally:
            lock.release()

    def _load(self) -> None:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            self._read_as, self._file, self._by_id = None, _KeyFile(), {}
            return
        seen = (there.st_mtime_ns, there.st_size, there.st_ino)
        if seen == self._read_as:
            return
        try:
            self._file = msgspec.json.decode(self.path.read_bytes(), type=_KeyFile)
        except UNFIT as error:
            raise SettingsError(
                f"The file of API keys, {self.path}, cannot be read: {error}. Restore it, or remove it to begin "
                "without keys."
            ) from error
        self._by_id = {key.id: key for key in self._file.keys}
        self._read_as = seen

    def _store(self, file: _KeyFile) -> None:
        make_private(self.path.parent)
        content = msgspec.json.format(msgspec.json.encode(file), indent=2)
        write_atomically(self.path, content, durable=True, private=True)
        self.path.chmod(0o600)  # an older file keeps its permissions, whatever they are
        self._read_as = None
        self._load()


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def check_keys_made(store: KeyStore, host: str) -> None:
    """Raise `SettingsError` if there is no valid key. Call it before the server listens for other machines."""
    if all(key.revoked_at is not None for key in store.all()):
        raise SettingsError(
            f"No key has been made yet, so the server does not listen on {host}. Make one for yourself: "
            "`longshore keys add NAME --scope admin`. Then start the server again."
        )


def admin_key_made(store: KeyStore, now: float) -> Path | None:
    """Make an admin key if the server has none, and return the private file that has it; None if there is one."""
    if any(key.revoked_at is None and Scope.ADMIN in key.scopes for key in store.all()):
        return None
    path = store.path.with_name("admin.key")
    key = store.add("admin", [Scope.ADMIN], now)
    path.unlink(missing_ok=True)
    write_atomically(path, f"{key}\n".encode(), durable=True, private=True)
    return path
