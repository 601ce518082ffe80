"""`longshore fetch`: fetch one page as a handler would, and print it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.scrape.http.response import Response


def fetch(
    url: Annotated[str, typer.Argument(metavar="URL", help="The page.", show_default=False)],
    css: Annotated[
        str | None,
        typer.Option(metavar="SELECTOR", help="Print only the text of elements that match.", show_default=False),
    ] = None,
    headers: Annotated[
        bool, typer.Option("--headers", metavar="", help="Print the status and the headers instead of the page.")
    ] = False,
    links: Annotated[bool, typer.Option("--links", metavar="", help="Print the links of the page.")] = False,
    browser: Annotated[
        bool,
        typer.Option("--browser", metavar="", help="Open it in the browser, and print the HTML after its scripts."),
    ] = False,
    profile: options.Profile = None,
    debug: options.Debug = None,
) -> int:
    """Fetch one page through the same client as handlers have, and print its body.

    Robots.txt, the pace, proxies, Tor, cookies and the user agent are those of the settings. The exit code is 1 if the
    page cannot be fetched, its status is 400 or above, or nothing matches the selector.
    """
    from longshore.cli.one_page import checked_page_url, fetched
    from longshore.runs.local.own_kit import own_kit
    from longshore.settings import export_dotenv, resolve

    settings = resolve({"profile": profile, "debug": debug})
    export_dotenv()
    url = checked_page_url(url)
    with own_kit(settings, url) as kit:
        return _print(fetched(kit, url, browser=browser), css=css, headers=headers, links=links)


def _print(page: Response, *, css: str | None, headers: bool, links: bool) -> int:
    from longshore.scrape.http.response import in_words
    from longshore.system.printable import printable
    from longshore.ui.output import note, write

    failed = page.status >= 400
    if failed:
        note(f"The page answered {in_words(page.status)}.")
    if headers:
        write(in_words(page.status))
        for name, value in page.headers.items():
            write(printable(f"{name}: {value}"))
    elif links:
        for link in page.links(same_host=False, files=True, nofollow=True):
            write(printable(link))
    elif css is not None:
        from longshore.scrape.html.parse import text_in

        found = page.css(css)
        if not found:
            note(f"Nothing matches {css}.")
        for element in found:
            write(printable(text_in(element) or element.html or ""))
        failed = failed or not found
    elif sys.stdout.isatty():
        # A pipe gets every byte; a terminal would obey some of them.
        write(page.text)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(page.body)
        sys.stdout.buffer.flush()
    return 1 if failed else 0
