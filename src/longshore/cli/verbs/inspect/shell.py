"""`longshore shell`: a Python prompt with a page, to try selectors on."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options
from longshore.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from longshore.scrape.capture.exchange import Exchange
    from longshore.scrape.http.response import Response
    from longshore.settings import Settings


def shell(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="The page to begin with.", show_default=False)
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Open the pages of a kept failure instead.", show_default=False),
    ] = None,
    job: Annotated[
        str | None, typer.Option(metavar="ID", help="Open the kept pages of a job instead.", show_default=False)
    ] = None,
    browser: Annotated[
        bool,
        typer.Option("--browser", metavar="", help="Open pages in the browser, and read them after their scripts."),
    ] = False,
    profile: options.Profile = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> int:
    """Open a Python prompt with a page: 'page.css("h1")', 'page.links()', 'view(page)', 'page = fetch(url)'.

    Pages are fetched as a handler fetches them: robots.txt, pace, proxies and cookies are those of the settings.
    IPython is used if it is installed. Input that is no terminal is run as a program.
    """
    from longshore.settings import export_dotenv, resolve

    if sum(given is not None for given in (url, bundle, job)) > 1:
        raise UsageError("Name a URL, --bundle or --job: one of them.")
    settings = resolve({"profile": profile, "queue": queue, "debug": debug})
    export_dotenv()
    if bundle is not None:
        from longshore.scrape.capture.failure_bundles import read_bundle

        kept, exchanges = read_bundle(bundle)
        return _kept(exchanges, f"bundle {bundle.name}", {"job": kept.job, "failure": kept.failure})
    if job is not None:
        return _kept_job(settings, job)
    return _live(settings, url, browser=browser)


def _live(settings: Settings, url: str | None, *, browser: bool) -> int:
    from longshore.cli.one_page import checked_page_url, fetched
    from longshore.runs.local.own_kit import own_kit

    first = None if url is None else checked_page_url(url)
    with own_kit(settings, first or "") as kit:

        def fetch(url: str) -> Response:
            """Fetch a page, whatever its status."""
            return fetched(kit, checked_page_url(url), browser=browser)

        page = None if first is None else fetch(first)
        return _prompt({"page": page, "kit": kit, "fetch": fetch, "view": view})


def _kept(exchanges: list[Exchange], name: str, names: dict[str, Any]) -> int:
    from longshore.extensions.traces import ExchangeKind
    from longshore.scrape.http.offline import Answers, OfflineSyncHttp
    from longshore.scrape.http.response import Response

    pages = [
        Response(url=each.final_url or each.url, status=each.status, headers=dict(each.headers), body=each.body)
        for each in exchanges
        if each.status is not None and each.kind in (ExchangeKind.HTTP, ExchangeKind.DOCUMENT)
    ]
    http = OfflineSyncHttp(Answers(exchanges, name))
    page = pages[-1] if pages else None
    return _prompt({"page": page, "pages": pages, "fetch": http.get, "view": view, **names})


def _kept_job(settings: Settings, job_id: str) -> int:
    from longshore.runs.control.job_selection import find_job
    from longshore.scrape.capture.page_store import PageStore

    job, _ = asyncio.run(find_job(settings, job_id))
    exchanges = PageStore(Path(settings.data_folder) / "pages").exchanges(job)
    if not exchanges:
        raise NotFoundError(f"No pages of job {job_id} are kept here. They are where keep_pages is set for its worker.")
    return _kept(exchanges, f"job {job_id}", {"job": job, "failure": job.failure})


def view(page: Response) -> None:
    """Show a page in the browser of this desktop: as it was fetched, with its pictures and styles, without scripts."""
    import tempfile
    import webbrowser
    from html import escape

    # The page is hostile, and as a local file its scripts might read others.
    head = (
        "<!doctype html><meta http-equiv='Content-Security-Policy' content=\"script-src 'none'\">"
        f"<base href='{escape(page.url)}'>"
    )
    with tempfile.NamedTemporaryFile(suffix=".html", delete=False) as file:
        file.write(b"\xef\xbb\xbf" + (head + page.text).encode(errors="replace"))
    webbrowser.open(Path(file.name).as_uri())


def _prompt(names: dict[str, Any]) -> int:
    """Run a prompt, or the program on standard input, with these names. Return the exit code."""
    import code

    if not sys.stdin.isatty():
        program = code.InteractiveInterpreter(names)
        failed = False

        def show_and_remember() -> None:
            nonlocal failed
            failed = True
            code.InteractiveInterpreter.showtraceback(program)

        program.showtraceback = show_and_remember  # type: ignore[method-assign]
        program.showsyntaxerror = lambda *_: show_and_remember()  # type: ignore[method-assign]
        program.runsource(sys.stdin.read(), "<standard input>", "exec")
        return 1 if failed else 0
    banner = _banner(names)
    try:
        from IPython import start_ipython
    except ImportError:
        _complete_with_tab(names)
        code.interact(banner, local=names, exitmsg="")
    else:
        from longshore.ui.output import write

        write(banner)
        start_ipython(argv=["--no-banner", "--no-confirm-exit"], user_ns=names)
    return 0


def _complete_with_tab(names: dict[str, Any]) -> None:
    """Let the tab key complete names at Python's own prompt, if this Python can."""
    if sys.platform != "win32":
        with suppress(ImportError):
            import readline
            import rlcompleter

            readline.set_completer(rlcompleter.Completer(names).complete)
            readline.parse_and_bind("tab: complete")


def _banner(names: dict[str, Any]) -> str:
    from longshore.scrape.http.response import in_words
    from longshore.system.printable import printable
    from longshore.url import mask_url

    page = names["page"]
    lines = [] if page is None else [f"page    {in_words(page.status)}, {len(page.body):,} bytes, {mask_url(page.url)}"]
    if "pages" in names:
        lines.append(f"pages   all {len(names['pages'])} kept pages, in order; fetch(url) answers from them")
    else:
        lines.append("fetch   page = fetch(url)")
    if "kit" in names:
        lines.append("kit     kit.http, kit.browser, kit.emit")
    if names.get("failure") is not None:
        lines.append(f"failure {names['failure'].message}")
    lines.append('try     page.css("h1"), page.links(), page.json_ld(), page.form(), view(page)')
    return "\n".join([*map(printable, lines), "Ctrl-D ends."])
