"""Published versions in words. Everything in a version was written by others, so nothing of it is printed as it is."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from longshore.extensions.published_code import PublishedVersion, PublishedVersions
from longshore.observe.statistics import about
from longshore.runs.published.handler_code import HandlerCode
from longshore.runs.published.prepare import Offer
from longshore.runs.published.requirements import have_hashes
from longshore.system.printable import printable
from longshore.ui.words import size_words

_WIDTH = 79
_INDENT = 15
_MOST_NAMES = 12
COMPARE = "Compare the fingerprint with the one that the host told you. If they differ, answer no."
MAY_DO = (
    "It will run as you. Like any program that you start, it can read and change your files, use your network and your "
    "logins, and start other programs. Longshore does not shut it in. Accept it only if you trust the people of this "
    "queue."
)


def offer_words(offer: Offer) -> str:
    """Return what a person should know before they accept a version."""
    first = (
        "This queue brings its own code. It has not run on this machine yet."
        if offer.accepted is None
        else f"The code of this queue has changed since you accepted version {offer.accepted.fingerprint[:12]}."
    )
    facts = [("Queue", printable(offer.queue)), *_facts(offer.version, offer.code, offer.now)]
    return "\n\n".join(
        (
            textwrap.fill(first, _WIDTH),
            "\n".join(_fact(name, text) for name, text in facts),
            textwrap.fill(f"{COMPARE} {MAY_DO}", _WIDTH),
            # Whole on one line, so that it can be copied.
            f"To read the files before you decide:\n  {printable(offer.reading)}",
        )
    )


def version_words(version: PublishedVersion, code: HandlerCode, now: float) -> str:
    """Return what is known of a version, and the list of its files."""
    facts = "\n".join(_fact(name, text) for name, text in _facts(version, code, now))
    files = "\n".join(f"  {len(file.content):>10,}  {printable(file.name)}" for file in code.files)
    return f"{facts}\n\n{files}"


def version_rows(versions: PublishedVersions, now: float) -> list[list[str]]:
    """Return the rows of a table of versions, newest first."""
    pinned: dict[str, list[str]] = {}
    for run, fingerprint in versions.pins.items():
        pinned.setdefault(fingerprint, []).append(run)
    return [
        [
            each.short,
            "current" if each.fingerprint == versions.current else "",
            _ago(now - each.published_at),
            printable(each.author),
            size_words(each.size),
            printable(", ".join(sorted(pinned.get(each.fingerprint, [])))),
            printable(each.note),
        ]
        for each in reversed(versions.versions)
    ]


def _facts(version: PublishedVersion, code: HandlerCode, now: float) -> list[tuple[str, str]]:
    author = f"{printable(version.author) or 'no name'}, as they say themselves; {_ago(now - version.published_at)}"
    names = [printable(file.name) for file in code.files]
    return [
        ("Fingerprint", version.fingerprint),
        ("Published by", author),
        *([("Note", printable(version.note))] if version.note else []),
        ("Files", f"{_listed(names)} ({size_words(code.size)})"),
        ("Starts with", printable(code.entry)),
        ("Packages", _packages(code.requirements)),
    ]


def _packages(requirements: Sequence[str]) -> str:
    if not requirements:
        return "none besides Longshore"
    names = [printable(each.partition(" ")[0]) for each in requirements]
    how = "with hashes" if have_hashes(requirements) else "and what these need"
    return f"{_listed(names)} ({how}; pip installs them into a folder of their own)"


def _ago(seconds: float) -> str:
    return f"{about(seconds)} ago"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _fact(name: str, text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=f"  {name:<{_INDENT - 2}}",
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
    )
