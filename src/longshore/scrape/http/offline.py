"""An HTTP client without a network: it replays stored responses and refuses every other request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from multidict import CIMultiDict

from longshore.errors import ConnectionFailedError, Failure, ProcessingError, TimedOutError, WorkerError
from longshore.extensions.traces import ExchangeKind
from longshore.masking import mask_address
from longshore.scrape.block_pages import BlockDetector, BlockPage
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.masking import mask_body
from longshore.scrape.http.fetch_all import AT_ONCE, fetch_all
from longshore.scrape.http.request import BodyOptions, Options, Request, check_options, make_request
from longshore.scrape.http.response import BlockPageError, Response, StatusError, is_temporary
from longshore.url import canonical_url

_LISTED = 5
_ERRORS: dict[str, type[WorkerError]] = {
    error.error_type: error for error in (ConnectionFailedError, TimedOutError, ProcessingError)
}


class NotKeptError(ProcessingError):
    """A request whose response is not stored. The offline client never fetches."""

    retryable = False


class Answers:
    """The stored responses, found by method, canonical URL and request body.

    A repeated request gets its responses in the original order, and then the last one again. A response that the kit
    itself retried (a 503, a broken connection) is skipped.
    """

    def __init__(
        self,
        exchanges: Iterable[Exchange],
        source: str,
        failure: Failure | None = None,
        block_pages: Sequence[BlockPage] = (),
    ) -> None:
        """Make the replay of `exchanges`; `source` names their origin in error messages.

        `failure` is the recorded failure of the attempt: if an exchange without a response caused it, the same error is
        raised again. `block_pages` are those that the handler declares.
        """
        self.blocks = BlockDetector(block_pages)
        self._source = source
        self._failure = failure
        self._by_request: dict[tuple[str, str], list[Exchange]] = {}
        for exchange in exchanges:
            if exchange.kind is not ExchangeKind.HTTP:
                continue
            kept = self._by_request.setdefault((exchange.method, url_key(exchange.url)), [])
            if kept and self._retried(kept[-1]) and kept[-1].request_body == exchange.request_body:
                kept.pop()
            kept.append(exchange)

    def answer(self, request: Request) -> Response:
        """Return the stored response to a request, with any status. Raise `NotKeptError` if there is none."""
        kept = self._by_request.get((request.method, url_key(request.url)))
        if not kept:
            raise NotKeptError(
                f"{request.method} {mask_address(request.url)} is not among the pages kept of {self._source}, and "
                f"nothing is fetched here. Kept are: {self._listed()}."
            )
        sent = mask_body(request.body or b"")
        # A body may differ each time, for example by a timestamp. If none is equal, take the responses in order.
        matching = [exchange for exchange in kept if exchange.request_body == sent] or kept
        found = matching[0]
        if len(matching) > 1:
            kept.remove(found)
        if found.status is None:
            raise recorded_error(found, self._failure)
        return _response(found, found.status)

    def _retried(self, exchange: Exchange) -> bool:
        """Return whether the kit sent the request of this exchange again by itself."""
        status = exchange.status
        return (
            status is None or is_temporary(status) or bool(self.blocks.why(_response(exchange, status), exchange.url))
        )

    def _listed(self) -> str:
        return listed([url if method == "GET" else f"{method} {url}" for method, url in self._by_request])


class OfflineHttp:
    """The offline `kit.http` of async handlers. Options that only matter on a network are ignored."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def get(self, url: str, **options: Unpack[Options]) -> Response:
        """As `AttemptHttp.get`."""
        return await self.request("GET", url, **options)

    async def get_all(
        self, urls: Iterable[str], *, at_once: int = AT_ONCE, **options: Unpack[Options]
    ) -> list[Response]:
        """As `AttemptHttp.get_all`."""
        return await fetch_all(lambda url: self.get(url, **options), urls, at_once)

    async def post(self, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AttemptHttp.post`."""
        return _replay(self._answers, "POST", url, options)

    async def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AttemptHttp.request`."""
        return _replay(self._answers, method, url, options)


class OfflineSyncHttp:
    """The offline `kit.http` of plain handlers."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def get(self, url: str, **options: Unpack[Options]) -> Response:
        """As `AttemptHttp.get`."""
        return self.request("GET", url, **options)

    def get_all(self, urls: Iterable[str], *, at_once: int = AT_ONCE, **options: Unpack[Options]) -> list[Response]:
        """As `AttemptHttp.get_all`."""
        del at_once
        return [self.get(url, **options) for url in urls]

    def post(self, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AttemptHttp.post`."""
        return _replay(self._answers, "POST", url, options)

    def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AttemptHttp.request`."""
        return _replay(self._answers, method, url, options)


def _replay(answers: Answers, method: str, url: str, options: BodyOptions) -> Response:
    check_options(options)
    request = make_request(
        method,
        url,
        params=options.get("params"),
        data=options.get("data"),
        json=options.get("json"),
        files=options.get("files"),
    )
    response = answers.answer(request)
    if response.status >= 400 and options.get("check", True):
        # The stored URL is masked; the mask alone does not mean that the request was redirected.
        moved = url_key(response.url) != url_key(request.url)
        raise StatusError(request.url, response.status, final_url=response.url if moved else "")
    if options.get("check", True) and (why := answers.blocks.why(response, request.url)):
        raise BlockPageError(request.url, why, status=response.status)
    return response


def _response(exchange: Exchange, status: int) -> Response:
    url = exchange.final_url or exchange.url
    return Response(url=url, status=status, headers=CIMultiDict(exchange.headers), body=exchange.body)


def recorded_error(exchange: Exchange, failure: Failure | None) -> WorkerError:
    """Return the error of an exchange without a response; the recorded `failure` if this exchange caused it."""
    if failure is not None and failure.message == exchange.error and failure.error_type in _ERRORS:
        return _ERRORS[failure.error_type](exchange.error, retryable=failure.retryable)
    return ConnectionFailedError(exchange.error)


def listed(names: Sequence[str]) -> str:
    """Return the first names in words, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (", ".join(names[:_LISTED]) or "none") + more


def url_key(url: str) -> str:
    """Return the canonical URL with secrets masked, as it is stored."""
    return canonical_url(mask_address(url))
