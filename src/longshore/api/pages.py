"""Fetch a page from a script, as handlers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshore.scrape.http.response import Response


def fetch(url: str, *, timeout: float | None = None, profile: str | None = None) -> Response:
    """Return a page, fetched through the same client as handlers have; the same as `longshore fetch`.

    Robots.txt, the pace, proxies, Tor and the user agent are those of the settings; the rate of each host is that of
    this machine. `timeout` is in seconds, for each try. Raise `StatusError` if the status is 400 or above,
    `BlockPageError` for a block page, and the other errors of `kit.http`.
    """
    from longshore.runs.local.own_kit import own_kit
    from longshore.settings import export_dotenv, resolve

    settings = resolve({"profile": profile})
    export_dotenv()
    with own_kit(settings, url) as kit:
        return kit.http.get(url, timeout=timeout)
