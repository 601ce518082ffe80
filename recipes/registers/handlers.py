"""The handlers: one for each kind of page. Four run beside each other in a worker, three in a process of their own."""

from __future__ import annotations

import base64
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from longshore import AsyncKit, BlockPage, ProcessingError, Result, StatusError, SyncKit, handler, new_job
from longshore.job import NewJob
from longshore.scrape.http.client import Response

# `longshore` itself does not look for modules in the folder where it is started.
sys.path.append(str(Path(__file__).parents[1]))

from registers.config import asks_for
from registers.readers.argentina import read_laboratories, read_laboratory
from registers.readers.argentina import read_product as read_argentine_product
from registers.readers.india import read_product as read_indian_product
from registers.readers.malaysia import read_product as read_malaysian_product
from registers.readers.netherlands import read_pack
from registers.readers.quebec import read_list, read_publications
from registers.readers.russia import read_form, read_results
from registers.readers.taiwan import read_drug
from registers.readers.values import CutOffError
from registers.records import (
    KIND,
    ArgentinePresentation,
    DutchPack,
    IndianPack,
    MalaysianPack,
    QuebecListing,
    RussianPack,
    TaiwanesePrice,
)

T = TypeVar("T")

_TRIES = 3
"""How often a page that ends in the middle is asked for within one attempt."""
_MOST_PAGES = 200
_THREADS = 4
_BLOCKED = (BlockPage(selector="#captcha-form"),)
# After a ban, four attempts are spread over about half a minute.
_attempts = partial(handler, timeout=300, retries=3, backoff=4, block_pages=_BLOCKED)
_OWN_BYTES = """async () => {
    const answer = await fetch(location.href, {cache: "force-cache"});
    if (!answer.ok) throw new Error("status " + answer.status);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
}"""


@_attempts("india", emits={KIND: IndianPack})
async def india(url: str, kit: AsyncKit) -> dict[str, int]:
    """Collect the packs of a product, from all of its pages."""
    pages, packs = set[str](), set[str]()
    following: str | None = url
    # The last page of some products names itself as the next one.
    while following is not None and following not in pages:
        if len(pages) == _MOST_PAGES:
            raise ProcessingError(f"{url} has more than {_MOST_PAGES} pages", retryable=False)
        pages.add(following)
        found, following = await _read("India", following, kit, read_indian_product)
        for fields in found:
            # A page repeats the last pack of the page before.
            if fields["pack"] not in packs:
                packs.add(fields["pack"])
                kit.emit(fields, KIND)
    return {"packs": len(packs), "pages": len(pages)}


@_attempts("malaysia", emits={KIND: MalaysianPack})
async def malaysia(url: str, kit: AsyncKit) -> dict[str, int]:
    """Collect the packs of a product."""
    found = await _read("Malaysia", url, kit, read_malaysian_product)
    for fields in found:
        kit.emit(fields, KIND)
    return {"packs": len(found)}


@_attempts("netherlands", emits={KIND: DutchPack})
async def netherlands(url: str, kit: AsyncKit) -> dict[str, int] | dict[str, str]:
    """Collect a pack, unless it has left the register."""
    try:
        kit.emit(await _read("Netherlands", url, kit, read_pack), KIND)
    except StatusError as error:
        if error.status != 410:
            raise
        return {"skipped": "the pack has left the register"}
    return {"packs": 1}


@_attempts("taiwan", emits={KIND: TaiwanesePrice})
async def taiwan(url: str, kit: AsyncKit) -> dict[str, int]:
    """Collect the prices of a drug over time."""
    found = await _read("Taiwan", url, kit, read_drug)
    for fields in found:
        kit.emit(fields, KIND)
    return {"periods": len(found)}


@_attempts("russia", emits={KIND: RussianPack})
async def russia(url: str, kit: AsyncKit) -> Result:
    """Collect a page of results; the first page leads to all others."""
    base, _, number = url.partition("?page=")

    async def sent(url: str) -> Response:
        # A form can be sent once.
        form = read_form(_usable(await kit.http.get(url, check=False)), number or "1")
        return _usable(await kit.http.post(form.url, data=form.data, check=False))

    found, pages = await _again(sent, url, kit, read_results)
    for fields in found:
        kit.emit(fields, KIND)
    first = number in ("", "1")
    others: list[NewJob] = [new_job("russia", {"url": f"{base}?page={page}"}) for page in range(2, pages + 1)]
    return Result({"packs": len(found), "pages": pages}, others if first else ())


@_attempts("argentina")
def argentina(url: str, kit: SyncKit) -> list[NewJob]:
    """Find the laboratories, a job for each."""
    return [new_job("argentina_laboratory", {"url": each}) for each in _read_plain(url, kit, read_laboratories)]


@_attempts("argentina_laboratory", emits={KIND: ArgentinePresentation})
def argentina_laboratory(url: str, kit: SyncKit) -> dict[str, int]:
    """Collect all products of a laboratory, with threads of its own."""
    products = _read_plain(url, kit, read_laboratory)
    with ThreadPoolExecutor(_THREADS) as threads:
        read = list(threads.map(lambda each: _read_plain(each, kit, read_argentine_product), products))
    for fields in (each for found in read for each in found):
        kit.emit(fields, KIND)
    return {"products": len(products)}


@_attempts("quebec")
def quebec(url: str, kit: SyncKit) -> list[NewJob]:
    """Find the lists, a job for each."""
    return [new_job("quebec_list", {"url": each}) for each in _read_plain(url, kit, read_publications)]


@_attempts("quebec_list", memory="1GB", emits={KIND: QuebecListing})
def quebec_list(url: str, kit: SyncKit) -> dict[str, int]:
    """Collect the rows of a PDF. It is read in a process of its own, which ends with its time or its memory."""
    found = _read_plain(url, kit, read_list)
    for fields in found:
        kit.emit(fields, KIND)
    return {"rows": len(found)}


async def _read(register: str, url: str, kit: AsyncKit, reader: Callable[[Response], T]) -> T:
    """Return what `reader` finds on a page."""

    async def fetched(url: str) -> Response:
        return await _fetch(register, url, kit)

    return await _again(fetched, url, kit, reader)


async def _again(
    fetched: Callable[[str], Awaitable[Response]], url: str, kit: AsyncKit, reader: Callable[[Response], T]
) -> T:
    for _ in range(_TRIES - 1):
        try:
            return reader(await fetched(url))
        except CutOffError as error:
            kit.log.warning("Asking again", why=str(error))
    return reader(await fetched(url))


def _read_plain(url: str, kit: SyncKit, reader: Callable[[Response], T]) -> T:
    """Return what `reader` finds on a page, in a plain handler."""
    for _ in range(_TRIES - 1):
        try:
            return reader(_usable(kit.http.get(url, check=False)))
        except CutOffError as error:
            kit.log.warning("Asking again", why=str(error))
    return reader(_usable(kit.http.get(url, check=False)))


def _usable(response: Response) -> Response:
    """Return a response with a good status. A ban (403) is over after a while, so it is worth another attempt."""
    if response.status >= 400:
        raise StatusError(response.url, response.status, retryable=True if response.status == 403 else None)
    return response


async def _fetch(register: str, url: str, kit: AsyncKit) -> Response:
    if not asks_for("BROWSER", register):
        return _usable(await kit.http.get(url, check=False))
    async with kit.browser.page() as page:
        opened = await page.open(url, check=False)
        _usable(Response(url=opened.url, status=opened.status or 200))
        html = await page.html()
        charset = await page.do(lambda native: native.evaluate("document.characterSet"))
        if charset == "UTF-8" and "\ufffd" not in html:
            return Response(url=opened.url, body=html.encode())
        # The browser believed the register about its encoding. The cache of the browser has the bytes.
        body = await page.do(lambda native: native.evaluate(_OWN_BYTES))
        return Response(url=opened.url, body=base64.b64decode(body))
