"""Options that several verbs share.

An option with the name of a setting takes its meaning from the table of settings, and its value is text here: the table
knows the type and the allowed values, so that a wrong value gets the same message wherever it came from.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from longshore.errors import UsageError
from longshore.settings import TABLE
from longshore.stored import BIGGEST


def meaning(name: str) -> str:
    """Return the meaning of a setting, as help text."""
    return TABLE[name].meaning.replace("`", "'")


HandlerFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="The Python file with the handlers. Left out, the handlers that the queue carries.",
        show_default=False,
    ),
]
Accept = Annotated[
    str | None,
    typer.Option(
        metavar="FINGERPRINT",
        help="Without FILE: accept this version of the queue's handlers, without being asked.",
        show_default=False,
    ),
]
Queue = Annotated[str | None, typer.Option(metavar="URL", help=meaning("queue"), show_default=False)]
Debug = Annotated[bool | None, typer.Option("--debug", metavar="", help=meaning("debug"), show_default=False)]
LeaseSeconds = Annotated[str | None, typer.Option(metavar="SECONDS", help=meaning("lease_seconds"), show_default=False)]
Concurrency = Annotated[str | None, typer.Option(metavar="N", help=meaning("concurrency"), show_default=False)]
Profile = Annotated[str | None, typer.Option(metavar="NAME", help=meaning("profile"), show_default=False)]
MetricsPort = Annotated[str | None, typer.Option(metavar="N", help=meaning("metrics_port"), show_default=False)]
LogFormat = Annotated[str | None, typer.Option(metavar="FORMAT", help=meaning("log_format"), show_default=False)]

Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for programs.")]
Url = Annotated[
    list[str] | None,
    typer.Option("--url", metavar="URL", help="A URL to work on. Several may be given.", show_default=False),
]
SitemapOption = Annotated[
    str | None,
    typer.Option(
        "--sitemap",
        metavar="URL",
        help="The pages that a sitemap or a feed (RSS, Atom) lists; of a site's first page: those of all its sitemaps.",
        show_default=False,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="DAY",
        help="With --sitemap: only pages that changed since this day, as in 2026-01-31, or that name no day.",
        show_default=False,
    ),
]
UrlsFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A file with one URL a line; - is standard input.", show_default=False),
]
JobsFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A JSONL file with one job a line; - is standard input.", show_default=False),
]

MaxDepth = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Leave out follow-on jobs that are deeper in the run than this; 0 is the depth of submitted jobs.",
        show_default=False,
    ),
]
MaxJobs = Annotated[
    int | None,
    typer.Option(metavar="N", help="Leave out follow-on jobs once the run has this many jobs.", show_default=False),
]

Run = Annotated[str | None, typer.Option(metavar="ID", help="Only jobs of this run.", show_default=False)]
Kind = Annotated[str | None, typer.Option(metavar="K,…", help="Only jobs of these kinds.", show_default=False)]
Partition = Annotated[
    str | None, typer.Option(metavar="P,…", help="Only jobs of these partitions.", show_default=False)
]
StateOption = Annotated[str | None, typer.Option(metavar="S,…", help="Only jobs in these states.", show_default=False)]
Error = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="Only jobs whose last failure matches: its type, exception or message (Timeout*, *refused*).",
        show_default=False,
    ),
]
OlderThan = Annotated[
    str | None,
    typer.Option(
        metavar="AGE",
        help="Only jobs that were settled (or, if unfinished, submitted) at least this long ago: 90s, 30m, 12h, 7d.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask first.")]

_AGE = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[smhd])\Z")
_LONGEST = timedelta(days=3650)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def listed(text: str | None) -> frozenset[str] | None:
    """Return the names of a comma-separated list; None if there is no list."""
    if text is None:
        return None
    names = frozenset(name.strip() for name in text.split(","))
    if "" in names:
        raise UsageError(f"'{text}' is not a list of names. Separate them with commas: a,b,c.")
    return names


def identities(kind: str, text: str | None) -> dict[str, tuple[str, ...]]:
    """Return the payload fields that `--identity` names, for jobs of this kind; empty if it was not given."""
    if text is None:
        return {}
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if "" in names:
        raise UsageError(f"--identity cannot be '{text}': it takes names of payload fields, as in url,page.")
    return {kind: names}


def age(text: str | None, option: str = "--older-than") -> timedelta | None:
    """Return the duration that the value of an option means, such as `30m`."""
    if text is None:
        return None
    found = _AGE.match(text.strip())
    if not found:
        raise UsageError(f"{option} cannot be '{text}': it takes a number and a unit, such as 90s, 30m, 12h or 7d.")
    number, unit = float(found["number"]), _UNITS[found["unit"]]
    # Comparing durations instead would overflow for the numbers that are to be refused.
    if number > _LONGEST / timedelta(**{unit: 1}):
        raise UsageError(f"{option} cannot be '{text}': it takes {_LONGEST.days}d (ten years) at most.")
    return timedelta(**{unit: number})


def priority(number: int) -> int:
    """Return the value of `--priority`. Raise `UsageError` if a medium cannot store it."""
    if abs(number) > BIGGEST:
        raise UsageError(f"--priority cannot be {number}: it takes a whole number from -{BIGGEST} to {BIGGEST}.")
    return number
