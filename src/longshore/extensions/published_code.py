"""Published code: versions of the handlers that a queue carries beside its jobs, in its shared state.

Three namespaces keep it: the versions with a pointer to the current one, the parts of their content, and the runs that
are pinned to one version. The content of a version never changes, since its name is the SHA-256 of that content.
Nothing here unpacks or runs it; `runs.published` does, after it has compared the content with the fingerprint.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from longshore.errors import PublishedCodeError, QueueUnavailableError
from longshore.extensions.shared_state import UNCHANGED, Entries, SharedState, StateEntry, update_entry
from longshore.stored import LATEST, UNFIT

PUBLISHED = "published-code"
"""The namespace with an entry for each version, and one that names the current version."""
PARTS = "published-code-parts"
"""The namespace with the content of the versions."""
PINS = "run-versions"
"""The namespace with an entry for each run that is pinned to a version."""
CURRENT = "current"
"""The name of the entry that names the current version. No fingerprint is equal to it."""

MOST_BYTES = 5_000_000
"""The most bytes of a version as it is stored, compressed."""
_PART_BYTES = 384 * 1024
_PARTS_A_CALL = 8
"""With the size of a part this keeps a request well below what a server accepts."""
_MOST_PARTS = -(-MOST_BYTES // _PART_BYTES)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_LONGEST_TEXT = 200
SHORT = 12
"""The digits of a fingerprint in results, lists and logs. Only all of them identify a version."""


class PublishedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the handlers, as its publisher described it. Only the fingerprint can be verified."""

    fingerprint: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    """The SHA-256 of its content, in hexadecimal."""
    author: Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)]
    """The publisher, by their own account."""
    note: Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)] = ""
    published_at: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    """Seconds since 1970, by the clock of the medium."""
    size: Annotated[int, msgspec.Meta(ge=1, le=MOST_BYTES)]
    """The bytes of its content, compressed."""

    @property
    def short(self) -> str:
        """The first digits of the fingerprint, for people."""
        return self.fingerprint[:SHORT]

    @property
    def part_names(self) -> list[str]:
        """The names of the entries with its content, in order."""
        return [f"{self.fingerprint}/{number}" for number in range(-(-self.size // _PART_BYTES))]


class PublishedVersions(msgspec.Struct, frozen=True, kw_only=True):
    """All versions that a queue carries."""

    current: str | None
    """The fingerprint of the version that workers take; None if none is."""
    versions: tuple[PublishedVersion, ...]
    """Oldest first."""
    pins: Mapping[str, str]
    """The fingerprints that runs are pinned to."""

    def get(self, fingerprint: str) -> PublishedVersion | None:
        """Return the version with this fingerprint; None if the queue does not carry it."""
        return next((each for each in self.versions if each.fingerprint == fingerprint), None)

    def named(self, text: str) -> PublishedVersion:
        """Return the version whose fingerprint begins with `text`, of at least 6 digits.

        Raise `PublishedCodeError` if there is none, or several.
        """
        found = [each for each in self.versions if len(text) >= 6 and each.fingerprint.startswith(text.lower())]
        if len(found) != 1:
            many = "Several versions begin" if found else "No published version begins"
            raise PublishedCodeError(
                f"{many} with '{text}'. `longshore publish --list` shows their fingerprints; give at least 6 digits."
            )
        return found[0]

    def for_run(self, run: str | None) -> str | None:
        """Return the fingerprint of the version that workers of this run take; with None, workers of all runs."""
        return self.current if run is None else self.pins.get(run, self.current)


async def read_versions(state: SharedState) -> PublishedVersions:
    """Return the versions that a queue carries, without their content."""
    entries = await state.read_entries(PUBLISHED)
    pins = await read_pins(state)
    found = [each for entry in entries.entries if (each := _version(entry)) is not None]
    current = _fingerprint(entries.get(CURRENT))
    return PublishedVersions(
        current=current, versions=tuple(sorted(found, key=lambda each: each.published_at)), pins=pins
    )


async def read_pins(state: SharedState) -> dict[str, str]:
    """Return the runs that are pinned to a version, with its fingerprint."""
    entries = (await state.read_entries(PINS)).entries
    return {entry.name: pinned for entry in entries if (pinned := _fingerprint(entry)) is not None}


async def version_for(state: SharedState, run: str | None) -> str | None:
    """Return the fingerprint of the version that workers of a run should have now; None if there is none."""
    if run is not None:
        pinned = _fingerprint((await state.read_entries(PINS, frozenset({run}))).get(run))
        if pinned is not None:
            return pinned
    return _fingerprint((await state.read_entries(PUBLISHED, frozenset({CURRENT}))).get(CURRENT))


async def check_not_pinned(state: SharedState | None, run: str, command: str) -> None:
    """Raise `PublishedCodeError` if a run is pinned to a published version: a file of the user is another one."""
    pinned = None if state is None else (await read_pins(state)).get(run)
    if pinned is not None:
        raise PublishedCodeError(
            f"Run {run} is pinned to version {pinned[:SHORT]} of the queue's handlers. Work on it without FILE: "
            f"longshore {command} --run {run}. Or remove the pin: longshore publish --pin none --run {run}"
        )


async def store_version(
    state: SharedState, fingerprint: str, content: bytes, *, author: str, note: str = ""
) -> PublishedVersion:
    """Store the content of a version, and make it the current one. Return how it is listed.

    The content is stored before the version that names it, so a process that dies in between has published nothing. It
    may be called again.
    """
    now = (await state.read_entries(PUBLISHED, frozenset({CURRENT}))).now
    version = PublishedVersion(
        fingerprint=fingerprint,
        author=author[:_LONGEST_TEXT],
        note=note[:_LONGEST_TEXT],
        published_at=now,
        size=len(content),
    )
    pieces = [content[start : start + _PART_BYTES] for start in range(0, len(content), _PART_BYTES)]
    values = {name: base64.b64encode(piece).decode() for name, piece in zip(version.part_names, pieces, strict=True)}
    for names in _calls(version):
        await _store_parts(state, {name: values[name] for name in names})
    busy = QueueUnavailableError("Too many processes publish at the same time. Try again.")

    async def describe(entry: StateEntry, now: float) -> object:
        del now
        return UNCHANGED if _version(entry) is not None else msgspec.to_builtins(version)

    listed = await update_entry(state, PUBLISHED, fingerprint, describe, busy)

    async def point(entry: StateEntry, now: float) -> object:
        del now
        return UNCHANGED if _fingerprint(entry) == fingerprint else {"fingerprint": fingerprint}

    await update_entry(state, PUBLISHED, CURRENT, point, busy)
    return _version(listed.after) or version


async def read_content(state: SharedState, version: PublishedVersion) -> bytes:
    """Return the stored content of a version, unverified. Raise `PublishedCodeError` if parts of it are missing."""
    pieces: list[bytes] = []
    for names in _calls(version):
        entries = await state.read_entries(PARTS, frozenset(names))
        pieces += [_piece(entries, name, version) for name in names]
    return b"".join(pieces)


async def remove_version(state: SharedState, version: PublishedVersion) -> None:
    """Remove a version and its content. If it is the current one, there is none afterwards."""
    busy = QueueUnavailableError("Too many processes publish at the same time. Try again.")

    async def unpoint(entry: StateEntry, now: float) -> object:
        del now
        return None if _fingerprint(entry) == version.fingerprint else UNCHANGED

    async def remove(entry: StateEntry, now: float) -> object:
        del now
        return UNCHANGED if entry.value is None else None

    await update_entry(state, PUBLISHED, CURRENT, unpoint, busy)
    await update_entry(state, PUBLISHED, version.fingerprint, remove, busy)
    for names in _calls(version):
        entries = await state.read_entries(PARTS, frozenset(names))
        await state.swap_entries(PARTS, [StateEntry(each.name, each.version, None) for each in entries.entries])


async def pin_run(state: SharedState, run: str, fingerprint: str | None) -> None:
    """Pin a run to a version; with None, remove the pin."""
    busy = QueueUnavailableError(f"Too many processes pin run {run} at the same time. Try again.")

    async def change(entry: StateEntry, now: float) -> object:
        del now
        if _fingerprint(entry) == fingerprint:
            return UNCHANGED
        return None if fingerprint is None else {"fingerprint": fingerprint}

    await update_entry(state, PINS, run, change, busy)


async def _store_parts(state: SharedState, values: Mapping[str, str]) -> None:
    there = await state.read_entries(PARTS, frozenset(values))
    new = [
        StateEntry(name, there.get(name).version, value)
        for name, value in values.items()
        if there.get(name).value != value
    ]
    if new and None in await state.swap_entries(PARTS, new):
        raise QueueUnavailableError("Another process publishes the same version now. Try again.")


def _calls(version: PublishedVersion) -> list[Sequence[str]]:
    names = version.part_names
    return [names[start : start + _PARTS_A_CALL] for start in range(0, len(names), _PARTS_A_CALL)]


def _piece(entries: Entries, name: str, version: PublishedVersion) -> bytes:
    value = entries.get(name).value
    try:
        if isinstance(value, str) and len(value) <= 2 * _PART_BYTES:
            return base64.b64decode(value, validate=True)
    except binascii.Error:
        pass
    raise PublishedCodeError(
        f"The content of version {version.short} is incomplete or damaged in the queue. Nothing of it was run. "
        "Ask the host to publish it again."
    )


def _version(entry: StateEntry) -> PublishedVersion | None:
    try:
        found = msgspec.convert(entry.value, PublishedVersion)
    except UNFIT:
        return None  # the pointer, or written by another version of Longshore
    return found if found.fingerprint == entry.name else None


def _fingerprint(entry: StateEntry) -> str | None:
    value = entry.value.get("fingerprint") if isinstance(entry.value, dict) else None
    return value if isinstance(value, str) and _FINGERPRINT.fullmatch(value) else None
