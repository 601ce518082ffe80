"""`longshore proxies check`: which proxies work, and what is wrong with the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longshore.scrape.proxies.check import Checked

DEFAULT_URL = "https://api.ipify.org"
"""Answers with the address it sees."""


def proxies(
    action: Annotated[str, typer.Argument(metavar="check", help="Fetch a page through every proxy.")],
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="F", help="The file with the proxies, instead of the one that is set.", show_default=False
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"The page to fetch. One that answers with the address it sees shows where each proxy comes out. "
            f"Left out, it is egress_check_url, or {DEFAULT_URL}.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    debug: options.Debug = None,
) -> int:
    """Test every proxy at once, and show which work, how fast, and with which address they come out.

    The exit code is 1 if none works. Passwords are masked.
    """
    from longshore.cli.output import write_json
    from longshore.scrape.proxies.check import check_proxies
    from longshore.scrape.proxy_file import read_proxies
    from longshore.settings import resolve
    from longshore.url import mask_url

    if action != "check":
        raise UsageError(f"There is no `longshore proxies {action}`. Write `longshore proxies check`.")
    settings = resolve({"debug": debug})
    path = file if file is not None else settings.proxy_file
    if path is None:
        raise UsageError("No file of proxies is named. Give it with --file, or set PROXY_FILE.")
    page = url or settings.egress_check_url or DEFAULT_URL
    checked = asyncio.run(check_proxies(read_proxies(Path(path)), page))
    working = sum(each.ok for each in checked)
    if json:
        write_json({"ok": working > 0, "url": mask_url(page), "working": working, "proxies": checked})
    else:
        _show(checked, working, mask_url(page))
    return 0 if working else 1


def _show(checked: Sequence[Checked], working: int, page: str) -> None:
    from longshore.cli.output import write, write_table

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
    write_table(("proxy", "state", "took", "comes out as", "why"), rows, right=("took",), cut=("proxy", "why"))
    exits = len({each.exit_address for each in checked if each.exit_address})
    told = (
        f", with {exits} different addresses"
        if exits > 1
        else ", all with one address"
        if exits and working > 1
        else ""
    )
    write(f"{working:,} of {len(checked):,} work{told}. Fetched: {page}")
