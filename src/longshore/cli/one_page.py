"""One page, fetched for a person: by `fetch` and `shell`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.handlers.kit import SyncKit
    from longshore.scrape.http.response import Response


def checked_page_url(url: str) -> str:
    """Return the URL. Raise `UsageError` if it is not one of a web page."""
    from longshore.runs.submit.input_files import check_url

    try:
        check_url(url)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{url} is no web page: its URL begins with http:// or https://.")
    return url


def fetched(kit: SyncKit, url: str, *, browser: bool) -> Response:
    """Return the page, whatever its status; with `browser`, as it is after its scripts have run."""
    if not browser:
        return kit.http.get(url, check=False)
    from longshore.scrape.http.response import Response

    with kit.browser.page() as page:
        opened = page.open(url, check=False)
        return Response(
            url=page.url(),
            status=opened.status or 200,
            headers={"Content-Type": "text/html; charset=utf-8"},
            body=page.html().encode(errors="replace"),
        )
