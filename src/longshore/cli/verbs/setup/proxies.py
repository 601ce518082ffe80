"""`longshore proxies`: show the health of the workers' proxies. `longshore proxies check`: test those of a file."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longshore.scrape.proxies.check import Checked
    from longshore.scrape.proxies.health_table import ProxyRow
    from longshore.scrape.proxies.status_file import ProxyStatusFile
    from longshore.settings import Settings

DEFAULT_URL = "https://api.ipify.org"
"""A page that answers with the address it sees."""


def proxies(
    action: Annotated[
        str,
        typer.Argument(metavar="check", help="Fetch a page through every proxy of a file.", show_default=False),
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="With check: the file with the proxies, instead of the one that is set.",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"With check: the page to fetch. One that answers with the address it sees shows where each proxy "
            f"comes out. Left out, it is egress_check_url, or {DEFAULT_URL}.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    debug: options.Debug = None,
) -> int:
    """Show the health of each proxy per host: which serve, which rest, until when and why; also while workers run.

    The workers of this folder report it; the figures are a few seconds old, or from the end of the last worker. With
    `check`, every proxy of a file is tested instead: whether it works, how fast it is, and which address it comes out
    with; the exit code is then 1 if none works. Passwords are masked.
    """
    from longshore.settings import resolve

    if action not in ("", "check"):
        raise UsageError(f"There is no `longshore proxies {action}`. Write `longshore proxies` or with `check`.")
    settings = resolve({"debug": debug})
    if action == "check":
        return _check(settings, file, url, json=json)
    if file is not None or url is not None:
        raise UsageError("--file and --url are for `longshore proxies check`. Write `check`, or leave them out.")
    _show(settings, json=json)
    return 0


def _show(settings: Settings, *, json: bool) -> None:
    from longshore.scrape.proxies.health_table import rows, unused
    from longshore.scrape.proxies.status_file import read_status_files
    from longshore.ui.output import write, write_json

    files, now = read_status_files(Path(settings.data_folder) / "proxies"), time.time()
    counters = [each.counters for each in files]
    found = rows(counters, now)
    if json:
        workers = [{"worker": each.worker, "at": each.at, "alive": each.alive} for each in files]
        write_json({"workers": workers, "proxies": found, "unused": unused(counters)})
        return
    if not files:
        write("No worker of this folder has had proxies yet. Name a file of them: PROXY_FILE.")
        return
    hosts = [list(group) for _, group in groupby(found, key=lambda row: row.host)]
    quiet = [group for group in hosts if not any(row.failures or row.since for row in group)]
    for group in hosts:
        # Hosts without a failure are only counted, unless there is just one.
        if group not in quiet or len(quiet) == 1:
            _show_host(group, now)
    if len(quiet) > 1:
        write(f"At {len(quiet):,} {'other ' * (len(hosts) > len(quiet))}hosts all serve.")
    if left := len(unused(counters)):
        write(f"{left:,} of the proxies {'was' if left == 1 else 'were'} not used yet.")
    write(_source(files))


def _show_host(found: Sequence[ProxyRow], now: float) -> None:
    from longshore.observe.statistics import about
    from longshore.ui.output import write
    from longshore.ui.tables import write_table

    write(f"At {found[0].host or 'every host'}: {_counts(found)}")
    cells = [
        (
            row.proxy,
            _state(row, now),
            f"{row.requests:,}",
            f"{row.failed:,}",
            "" if row.since is None else f"{about(now - row.since)} ago",
            f"{row.failures:,} × {row.why}" if row.failures else row.why,
        )
        for row in found
        # These are listed above, under every host.
        if not row.everywhere
    ]
    columns = ("proxy", "state", "requests", "failed", "changed", "why")
    if cells:
        write_table(columns, cells, right=("requests", "failed"), cut=("why",), keep=("proxy",), drop=("why",))
    write("")


def _counts(found: Sequence[ProxyRow]) -> str:
    """Return how many proxies are in which state, with the reasons of those that do not serve."""
    counts = []
    for state, word in _WORDS.items():
        if count := sum(row.state == state and not row.everywhere for row in found):
            reasons = Counter(row.why for row in found if row.state == state != "serving" and not row.everywhere)
            counts.append(f"{count:,} {word}{_reasons(reasons)}")
    if gone := sum(row.everywhere for row in found):
        counts.append(f"{gone:,} rest at every host")
    return ", ".join(counts)


def _reasons(counted: Counter[str]) -> str:
    """Return the most frequent reasons, with their numbers if there are several."""
    if len(counted) <= 1:
        return "".join(f" ({why})" for why in counted if why)
    shown = [f"{number:,} {why}" for why, number in counted.most_common(_REASONS)]
    return f" ({', '.join(shown)}{', …' if len(counted) > _REASONS else ''})"


_REASONS = 3
_WORDS = {"resting": "rest", "probation": "on probation", "failing": "only failed", "serving": "serve"}


def _state(row: ProxyRow, now: float) -> str:
    from longshore.observe.statistics import about

    if row.until is None:
        return {"probation": "on probation", "failing": "only failed", "serving": "serves"}[row.state]
    some = "" if row.resting == row.workers else f", for {row.resting} of {row.workers}"
    return f"rests {about(row.until - now)}{some}"


def _source(files: Sequence[ProxyStatusFile]) -> str:
    from longshore.ui.words import counted, since

    alive = sum(each.alive for each in files)
    ended = len(files) - alive
    who = counted(alive, "worker") if alive else ""
    if ended:
        who += f"{' and ' if who else ''}{counted(ended, 'worker')} that ended"
    return f"As known to {who}, {since(max(each.at for each in files))}. Each change is a line in logs/proxies.log."


def _check(settings: Settings, file: Path | None, url: str | None, *, json: bool) -> int:
    from longshore.scrape.proxies.check import check_proxies
    from longshore.scrape.proxies.proxy_file import read_proxies
    from longshore.ui.output import write_json
    from longshore.url import mask_url

    path = file if file is not None else settings.proxy_file
    if path is None:
        raise UsageError("No file of proxies is named. Give it with --file, or set PROXY_FILE.")
    page = url or settings.egress_check_url or DEFAULT_URL
    checked = asyncio.run(check_proxies(read_proxies(Path(path)), page))
    working = sum(each.ok for each in checked)
    if json:
        write_json({"ok": working > 0, "url": mask_url(page), "working": working, "proxies": checked})
    else:
        _show_checked(checked, working, mask_url(page))
    return 0 if working else 1


def _show_checked(checked: Sequence[Checked], working: int, page: str) -> None:
    from longshore.ui.output import write
    from longshore.ui.tables import write_table

    rows = [
        (
            each.proxy,
            "ok" if each.ok else "failed",
            "" if each.seconds is None else f"{1000 * each.seconds:,.0f} ms",
            each.exit_address or "",
            each.why,
        )
        for each in checked
    ]
    write_table(("proxy", "state", "took", "comes out as", "why"), rows, right=("took",), cut=("why",), keep=("proxy",))
    exits = len({each.exit_address for each in checked if each.exit_address})
    addresses = (
        f", with {exits} different addresses"
        if exits > 1
        else ", all with one address"
        if exits and working > 1
        else ""
    )
    write(f"{working:,} of {len(checked):,} work{addresses}. Fetched: {page}")
