"""The packages that a version needs: each pinned to one release, so that every worker installs the same."""

from __future__ import annotations

import re
from collections.abc import Iterable

from longshore.errors import PublishedCodeError

_PINNED = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(?P<extras>\[[A-Za-z0-9._, -]*\])?"
    r" ?== ?(?P<release>[A-Za-z0-9.!+_-]+)"
    r"(?: ?(?P<marker>;[A-Za-z0-9_.,'\"()<>=!~*+/ -]*))?"
)
"""A requirement with single spaces and without hashes. There is one way to match, so it takes linear time."""
_HASH = re.compile(r"--hash=sha(?:256|384|512):[0-9a-f]{64,128}")
_LONGEST = 20_000


def pinned_requirements(lines: Iterable[str], source: str) -> tuple[str, ...]:
    """Return the requirements in the lines of a requirements file, each on one line, ordered.

    Raise `PublishedCodeError` for a line that is not pinned with `==`, and for options and addresses: they could make
    one fingerprint mean different code.
    """
    found = []
    for line in _joined(lines):
        text = " ".join(_without_comment(line[: _LONGEST + 1]).split())
        if not text:
            continue
        head, *hashes = text.split(" --hash=")
        hashes = [f"--hash={each}" for each in hashes]
        match = _PINNED.fullmatch(head)
        # After " -" pip would read an option.
        if len(line) > _LONGEST or match is None or " -" in head or not all(map(_HASH.fullmatch, hashes)):
            raise PublishedCodeError(
                f"{source}: {text[:100]!a} is not a pinned requirement. Write name==1.2.3, with --hash=sha256:… if you "
                "like; no options, addresses or ranges."
            )
        if re.sub(r"[-_.]+", "-", match["name"]).lower() == "longshore":
            raise PublishedCodeError(
                f"{source}: remove the line '{text[:100]}'. Each worker uses the Longshore that it was started with."
            )
        pinned = f"{match['name']}{match['extras'] or ''}=={match['release']}"
        found.append(" ".join((pinned, *([match["marker"].strip()] if match["marker"] else []), *hashes)))
    if len(hashed := {"--hash=" in each for each in found}) > 1:
        raise PublishedCodeError(f"{source}: some requirements have a --hash and some have none. Give all of them one.")
    del hashed
    return tuple(sorted(set(found), key=str.lower))


def have_hashes(requirements: Iterable[str]) -> bool:
    """Return whether the requirements name the files that may be installed."""
    return any("--hash=" in each for each in requirements)


def _without_comment(line: str) -> str:
    return "" if line.startswith("#") else re.split(r"\s#", line, maxsplit=1)[0]


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
