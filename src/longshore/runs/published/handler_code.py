"""The content of a published version: its files, its requirements and its entry, in one canonical form.

The fingerprint is the SHA-256 of that form, and it is compared before anything else is read. The form has regular files
only: there is no way to write a symbolic link, a device or an owner in it. Names are checked as well, so that a version
means the same files on every system.
"""

from __future__ import annotations

import hashlib
import unicodedata
import zlib
from pathlib import PurePosixPath
from typing import Annotated

import msgspec

from longshore.errors import PublishedCodeError
from longshore.extensions.published_code import MOST_BYTES, SHORT
from longshore.runs.published.requirements import pinned_requirements

MOST_FILES = 1_000
MOST_UNPACKED = 20_000_000
"""The most bytes of all files together."""
_FORMAT = 1
_LONGEST_NAME, _DEEPEST_NAME = 200, 12
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"}
)
"""Names that Windows takes for devices, with any ending."""
_RESERVED = frozenset('\\:*?"<>|')


class CodeFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One file."""

    name: str
    """Its path within the version, with `/`."""
    content: bytes
    executable: bool = False


class HandlerCode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a version."""

    format: int = _FORMAT
    entry: str
    """The name of the handler file."""
    requirements: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_FILES)] = ()
    """The packages it needs, one pinned requirement each."""
    files: Annotated[tuple[CodeFile, ...], msgspec.Meta(max_length=MOST_FILES)]
    """Ordered by name."""

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(len(file.content) for file in self.files)


def encoded(code: HandlerCode) -> bytes:
    """Return the canonical form. Raise `PublishedCodeError` for names or sizes that no version may have."""
    check(code)
    return msgspec.msgpack.encode(code)


def fingerprint_of(canonical: bytes) -> str:
    """Return the fingerprint of a version by its canonical form."""
    return hashlib.sha256(canonical).hexdigest()


def packed(canonical: bytes) -> bytes:
    """Return the canonical form as it is stored. Raise `PublishedCodeError` if it is too large."""
    stored = zlib.compress(canonical, 9)
    if len(stored) > MOST_BYTES:
        raise PublishedCodeError(
            f"The files have {len(stored):,} bytes when compressed; {MOST_BYTES:,} is the limit. Publish code only, "
            "and let the handlers fetch large data themselves."
        )
    return stored


def unpacked(stored: bytes, fingerprint: str) -> HandlerCode:
    """Return the version, if its content has this fingerprint. Raise `PublishedCodeError` otherwise.

    The fingerprint is compared before the content is decoded, and no more is decompressed than a version may have.
    """
    canonical = _decompressed(stored, fingerprint)
    if fingerprint_of(canonical) != fingerprint:
        raise _damaged(fingerprint, "does not have the fingerprint that it is listed under: it was changed")
    try:
        code = msgspec.msgpack.decode(canonical, type=HandlerCode)
    except msgspec.MsgspecError as error:
        raise _damaged(fingerprint, f"cannot be read ({error}); a newer Longshore may have written it") from error
    check(code)
    # A second spelling of the same files could hide content that only some readers see.
    if msgspec.msgpack.encode(code) != canonical:
        raise _damaged(fingerprint, "is not in the canonical form")
    return code


def check(code: HandlerCode) -> None:
    """Raise `PublishedCodeError` if a version could not be stored as files on every system, or lacks its entry."""
    names = [file.name for file in code.files]
    if code.format != _FORMAT:
        raise PublishedCodeError("The version was published by a newer Longshore. Update this one: pip install -U")
    if names != sorted(set(names)):
        raise PublishedCodeError("The names of the files are not unique and in order.")
    if len(names) > MOST_FILES or code.size > MOST_UNPACKED:
        raise PublishedCodeError(
            f"{len(names):,} files with {code.size:,} bytes are too much: {MOST_FILES:,} files and {MOST_UNPACKED:,} "
            "bytes is the limit."
        )
    spelled: dict[str, str] = {}
    for name in names:
        check_name(name)
        for path in (PurePosixPath(name), *PurePosixPath(name).parents):
            other = spelled.setdefault(str(path).casefold(), str(path))
            if other != str(path):
                raise PublishedCodeError(f"'{other}' and '{path}' are one file on some systems. Rename one of them.")
    files = set(names)
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    if both := sorted(files & folders):
        raise PublishedCodeError(f"'{both[0]}' is both a file and a folder.")
    if code.entry not in files or not code.entry.endswith(".py"):
        raise PublishedCodeError(f"The entry {code.entry[:_LONGEST_NAME]!a} is not one of its Python files.")
    # The writer of the version may have left out the check, so that pip would get options.
    if pinned_requirements(code.requirements, "The version") != code.requirements:
        raise PublishedCodeError("The requirements of the version are not in their canonical form.")


def check_name(name: str) -> None:
    """Raise `PublishedCodeError` if a file of this name could leave its folder, or differ between systems."""
    parts = name.split("/")
    bad = (
        not name
        or len(name) > _LONGEST_NAME
        or len(parts) > _DEEPEST_NAME
        or unicodedata.normalize("NFC", name) != name
        or not name.isprintable()
        or not _RESERVED.isdisjoint(name)
        or any(_is_bad(part) for part in parts)
    )
    if bad:
        raise PublishedCodeError(
            f"A file may not be called {name[:_LONGEST_NAME]!a}: names have no '..', no hidden parts, none of "
            f"{' '.join(sorted(_RESERVED))}, no devices, no compiled code and at most {_LONGEST_NAME} characters."
        )


def _is_bad(part: str) -> bool:
    device = part.partition(".")[0].rstrip(" ").casefold() in _DEVICES
    return not part or part.startswith((".", " ")) or part.endswith((".", " ")) or device or _is_compiled(part)


def _is_compiled(part: str) -> bool:
    # Python may run it instead of the source beside it, which people read.
    return part.casefold() == "__pycache__" or part.casefold().endswith((".pyc", ".pyo"))


def _decompressed(stored: bytes, fingerprint: str) -> bytes:
    # Names and requirements come on top of the files.
    most = MOST_UNPACKED + 2_000_000
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(stored, most + 1)
    except zlib.error as error:
        raise _damaged(fingerprint, f"cannot be decompressed ({error})") from error
    if len(content) > most:
        raise _damaged(fingerprint, f"has more than {most:,} bytes")
    if not reader.eof or reader.unused_data:
        raise _damaged(fingerprint, "is cut off, or something follows it")
    return content


def _damaged(fingerprint: str, what: str) -> PublishedCodeError:
    return PublishedCodeError(
        f"The content of version {fingerprint[:SHORT]} {what}. Nothing of it was run. Ask the host to publish it again."
    )
