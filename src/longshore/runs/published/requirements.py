"""The packages that a version needs: each pinned to one release, so that every worker installs the same."""

from __future__ import annotations

import re
from collections.abc import Iterable

from longshore.errors import PublishedCodeError

_PINNED = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(?P<extras>\[[A-Za-z0-9._, -]*\])?"
    r"\s*==\s*(?P<release>[A-Za-z0-9.!+_-]+)"
    r"(?P<marker>\s*;[^#\\]*?)?"
    r"(?P<hashes>(?:\s+--hash=sha(?:256|384|512):[0-9a-f]{64,128})*)"
)
_LONGEST = 20_000


def pinned_requirements(lines: Iterable[str], source: str) -> tuple[str, ...]:
    """Return the requirements in the lines of a requirements file, each on one line, ordered.

    Raise `PublishedCodeError` for a line that is not pinned with `==`, and for options and addresses: they could make
    one fingerprint mean different code.
    """
    found = []
    for line in _joined(lines):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text:
            continue
        match = _PINNED.fullmatch(text)
        if match is None or len(text) > _LONGEST or not text.isprintable():
            raise PublishedCodeError(
                f"{source}: {text[:100]!a} is not a pinned requirement. Write name==1.2.3, with --hash=sha256:… if you "
                "like; no options, addresses or ranges."
            )
        if re.sub(r"[-_.]+", "-", match["name"]).lower() == "longshore":
            raise PublishedCodeError(
                f"{source}: remove the line '{text[:100]}'. Each worker uses the Longshore that it was started with."
            )
        parts = (match["name"], match["extras"] or "", "==", match["release"], (match["marker"] or "").strip())
        found.append(" ".join(("".join(parts[:4]), *parts[4:], *match["hashes"].split())).replace("  ", " ").strip())
    if len(hashed := {"--hash=" in each for each in found}) > 1:
        raise PublishedCodeError(f"{source}: some requirements have a --hash and some have none. Give all of them one.")
    del hashed
    return tuple(sorted(set(found), key=str.lower))


def have_hashes(requirements: Iterable[str]) -> bool:
    """Return whether the requirements name the files that may be installed."""
    return any("--hash=" in each for each in requirements)


def _joined(lines: Iterable[str]) -> Iterable[str]:
    """Yield the lines, with those that a backslash continues as one."""
    before = ""
    for line in lines:
        stripped = line.rstrip("\r\n")
        if stripped.endswith("\\"):
            before += f"{stripped[:-1]} "
            continue
        yield before + stripped
        before = ""
    if before:
        yield before
