"""The handler of a target: fetches all pages of a search, and emits the businesses that it finds.

`YELLOWPAGES_MODE=http` fetches pages without a browser, which is faster; `browser` opens them in Chromium.
"""

from __future__ import annotations

import base64

from longshore import AsyncKit, Job, ProcessingError, handler
from longshore.fleet.partitions.us_states import US_STATES
from longshore.scrape.http.client import Response
from yellowpages.config import mode
from yellowpages.listing import Listing, keep
from yellowpages.pages import BlockedError, CutOffError, ResultPage, decoded, read_results

PARTITIONS = tuple(US_STATES)
_TRIES = 4
"""How often a page is asked for within one attempt, each time through another proxy if there are any."""
_MOST_PAGES = 100
_OWN_BYTES = """async () => {
    const answer = await fetch(location.href, {cache: "force-cache"});
    if (!answer.ok) throw new Error("status " + answer.status);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
}"""


@handler("target", timeout=300, retries=5, backoff=1, identity=("url",), emits={"listing": Listing}, keep=keep)
async def target(job: Job, kit: AsyncKit) -> dict[str, int]:
    """Collect the businesses of one category in one city."""
    searched = {f"searched_{name}": job.payload[name] for name in ("state", "city", "category")}
    url: str | None = job.payload["url"]
    pages, ids, accepted = set[str](), set[str](), 0
    while url is not None and url not in pages:
        if len(pages) == _MOST_PAGES:
            raise ProcessingError(f"{url}: the search has more than {_MOST_PAGES} pages", retryable=False)
        pages.add(url)
        results = await _results(url, kit)
        for fields in results.listings:
            # Advertisements are on every page, and a page repeats the end of the one before.
            if fields["listing_id"] not in ids:
                ids.add(fields["listing_id"])
                accepted += kit.emit({**fields, **searched}, "listing")
        # The last page of some searches names itself as the next one.
        url = results.next_url
    counts = {"accepted": accepted, "rejected": len(ids) - accepted, "pages": len(pages)}
    kit.log.info("Scraped target", **searched, **counts)
    return counts


async def _results(url: str, kit: AsyncKit) -> ResultPage:
    opened = _in_browser if mode() == "browser" else _over_http
    for _ in range(_TRIES - 1):
        try:
            return read_results(await opened(url, kit))
        except (BlockedError, CutOffError) as error:
            kit.log.warning("Asking again", why=str(error))
    return read_results(await opened(url, kit))


async def _over_http(url: str, kit: AsyncKit) -> Response:
    response = await kit.http.get(url)
    return decoded(response.url, response.body)


async def _in_browser(url: str, kit: AsyncKit) -> Response:
    async with kit.browser.page() as page:
        opened = await page.open(url)
        html = await page.html()
        charset = await page.do(lambda native: native.evaluate("document.characterSet"))
        if charset != "UTF-8" or "\ufffd" in html:
            # The browser believed the site about its encoding. The cache of the browser has the bytes.
            body = base64.b64decode(await page.do(lambda native: native.evaluate(_OWN_BYTES)))
        else:
            body = html.encode()
    return decoded(opened.url, body)
