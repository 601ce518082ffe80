"""Sessions of people at the web page: a key, or a one-time code, is exchanged for a cookie.

The cookie is a random token; the file has only its hash. A session ends at logout, after `SESSION_SECONDS`, or when its
key is revoked. It outlives a restart of the server. One-time codes live in memory for `CODE_SECONDS`: the link that has
one may end up in the history of a browser, so it is worth nothing afterwards.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import msgspec

from longshore.clock import Clock
from longshore.server.auth.keys import ApiKey, KeyStore, Scope
from longshore.stored import UNFIT
from longshore.system.atomic_file import write_atomically

COOKIE = "longshore_session"
SESSION_SECONDS = 30 * 86400.0
CODE_SECONDS = 900.0
_MOST = 10_000
"""The most sessions; beyond that, the oldest ends."""


class _Session(msgspec.Struct, frozen=True):
    key: str
    """The id of its key."""
    until: float


class Sessions:
    """The sessions of one server, in a file that only its user can read."""

    def __init__(self, path: Path, keys: KeyStore, clock: Clock) -> None:
        self._path = path
        self._keys = keys
        self._clock = clock
        self._codes: dict[str, tuple[str, float]] = {}
        self._open: dict[str, _Session] | None = None

    def begin(self, key: ApiKey) -> str:
        """Begin a session of this key, and return its token."""
        now = self._clock.now()
        token = secrets.token_urlsafe(32)
        there = {name: each for name, each in self._read().items() if each.until > now}
        for name in list(there)[: max(len(there) - _MOST + 1, 0)]:
            del there[name]
        self._write({**there, _hash(token): _Session(key.id, now + SESSION_SECONDS)})
        return token

    def key_of(self, token: str) -> ApiKey | None:
        """Return the key of a session; None if there is no such session, or its key was revoked."""
        found = self._read().get(_hash(token))
        return None if found is None or found.until <= self._clock.now() else self._keys.valid(found.key)

    def end(self, token: str) -> None:
        """End a session. A token that is not known is ignored."""
        there = self._read()
        if (name := _hash(token)) in there:
            self._write({other: each for other, each in there.items() if other != name})

    def make_code(self) -> str | None:
        """Return a code that begins one session with an admin key, soon; None if there is no admin key."""
        admin = next((key for key in self._keys.all() if key.revoked_at is None and Scope.ADMIN in key.scopes), None)
        if admin is None:
            return None
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = (admin.id, self._clock.monotonic() + CODE_SECONDS)
        return code

    def use_code(self, code: str) -> ApiKey | None:
        """Return the key of a code, which is used up by this; None if it is wrong, used or too old."""
        key, until = self._codes.pop(_hash(code), ("", 0.0))
        return self._keys.valid(key) if self._clock.monotonic() < until else None

    def _read(self) -> dict[str, _Session]:
        if self._open is None:
            try:
                self._open = msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Session])
            except (OSError, *UNFIT):
                self._open = {}  # people log in again
        return self._open

    def _write(self, there: dict[str, _Session]) -> None:
        self._open = there
        write_atomically(self._path, msgspec.json.encode(there), durable=False, private=True)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
