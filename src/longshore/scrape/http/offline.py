"""HTTP without a network: answers what was answered before, and refuses everything else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from multidict import CIMultiDict

from longshore.errors import ConnectionFailedError, Failure, ProcessingError, TimedOutError, WorkerError
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.masking import mask_address, mask_body
from longshore.scrape.http.fetch_all import AT_ONCE, fetch_all
from longshore.scrape.http.request import BodyOptions, Options, Request, check_options, make_request
from longshore.scrape.http.response import Response, StatusError, passes
from longshore.url import canonical_url

_LISTED = 5
_ERRORS: dict[str, type[WorkerError]] = {
    error.error_type: error for error in (ConnectionFailedError, TimedOutError, ProcessingError)
}


class NotKeptError(ProcessingError):
    """A page was asked for that is not among those kept; nothing is fetched here."""

    retryable = False


class Answers:
    """What was answered, by request: the method and the canonical URL, and among those the body that was sent.

    The same request gets its answers in the order of old, and the last one from then on. An answer after which the kit
    itself asked again (a 503, a broken connection) is passed over, as it was then.
    """

    def __init__(self, exchanges: Iterable[Exchange], source: str, failure: Failure | None = None) -> None:
        """`source` says whose pages they are, for the error where one is missing.

        `failure` is what became of the attempt: an exchange without an answer that was its cause is it again.
        """
        self._source = source
        self._failure = failure
        self._by_request: dict[tuple[str, str], list[Exchange]] = {}
        for exchange in exchanges:
            kept = self._by_request.setdefault((exchange.method, _known_as(exchange.url)), [])
            if kept and _asked_again(kept[-1]) and kept[-1].request_body == exchange.request_body:
                kept.pop()
            kept.append(exchange)

    def answer(self, request: Request) -> Response:
        """The answer to a request, whatever its status. `NotKeptError` where there is none."""
        kept = self._by_request.get((request.method, _known_as(request.url)))
        if not kept:
            raise NotKeptError(
                f"{request.method} {mask_address(request.url)} is not among the pages kept of {self._source}, and "
                f"nothing is fetched here. Kept are: {self._listed()}."
            )
        sent = mask_body(request.body or b"")
        # A body may hold what differs each time, such as an instant; then the order has to tell.
        alike = [exchange for exchange in kept if exchange.request_body == sent] or kept
        found = alike[0]
        if len(alike) > 1:
            kept.remove(found)
        if found.status is None:
            raise self._error(found)
        headers = CIMultiDict(found.headers)
        return Response(url=found.final_url or request.url, status=found.status, headers=headers, body=found.body)

    def _error(self, exchange: Exchange) -> WorkerError:
        failure = self._failure
        if failure is not None and failure.message == exchange.error and failure.error_type in _ERRORS:
            return _ERRORS[failure.error_type](exchange.error, retryable=failure.retryable)
        return ConnectionFailedError(exchange.error)

    def _listed(self) -> str:
        names = [url if method == "GET" else f"{method} {url}" for method, url in self._by_request]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return (", ".join(names[:_LISTED]) or "none") + more


class OfflineHttp:
    """`kit.http` of async handlers, offline. Options that only matter on a network are taken and passed over."""

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
        return _answered(self._answers, "POST", url, options)

    async def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AttemptHttp.request`."""
        return _answered(self._answers, method, url, options)


class OfflineSyncHttp:
    """The same for plain handlers."""

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
        return _answered(self._answers, "POST", url, options)

    def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AttemptHttp.request`."""
        return _answered(self._answers, method, url, options)


def _answered(answers: Answers, method: str, url: str, options: BodyOptions) -> Response:
    check_options(options)
    request = make_request(
        method, url, params=options.get("params"), data=options.get("data"), json=options.get("json")
    )
    response = answers.answer(request)
    if response.status >= 400 and options.get("check", True):
        # What is kept is masked: that alone makes it no other page.
        moved = _known_as(response.url) != _known_as(request.url)
        raise StatusError(request.url, response.status, final_url=response.url if moved else "")
    return response


def _known_as(url: str) -> str:
    """One spelling for all spellings of a URL, its secrets masked: what is kept has none."""
    return canonical_url(mask_address(url))


def _asked_again(exchange: Exchange) -> bool:
    return exchange.status is None or passes(exchange.status)
