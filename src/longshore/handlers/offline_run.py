"""Run a handler on the recorded exchanges of its job, without a network: for `replay` and `reparse`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

import msgspec
import structlog

from longshore.errors import CrashedError, Failure, ProcessingError, TimedOutError
from longshore.handlers.handler import Handler
from longshore.handlers.kit import AsyncKit, Kit, SyncKit
from longshore.handlers.result import outcome_of, outcome_of_error
from longshore.job import Job
from longshore.outcome import Failed, Outcome
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.failure_signature import FailureSignature, signature_of
from longshore.scrape.http.offline import Answers, OfflineHttp, OfflineSyncHttp
from longshore.scrape.records import Emission, Emitted

if TYPE_CHECKING:
    from longshore.scrape.browser import AttemptBrowsers, SyncAttemptBrowsers
    from longshore.scrape.browser.offline import OfflineBrowsers, RecordedPages


class OfflineError(ProcessingError):
    """The handler used a tool that needs a network."""

    retryable = False


HttpT_co = TypeVar("HttpT_co", covariant=True)
BrowserT_co = TypeVar("BrowserT_co", covariant=True)


class OfflineTools(Generic[HttpT_co, BrowserT_co]):
    """The tools of one attempt without a network: recorded responses answer HTTP and browsers, all others raise."""

    def __init__(self, http: HttpT_co, browser: Callable[[], BrowserT_co], emission: Emission) -> None:
        self._http = http
        self._browser = browser
        self._emission = emission

    def http(self, kit: Kit) -> HttpT_co:
        del kit
        return self._http

    def browser(self, kit: Kit) -> BrowserT_co:
        del kit
        return self._browser()

    def tor(self, kit: Kit) -> NoReturn:
        del kit
        _refuse("tor")

    def proxies(self, kit: Kit) -> NoReturn:
        del kit
        _refuse("proxies")

    def emit(self, kit: Kit, record: object, kind: str) -> bool:
        del kit
        return self._emission.emit(record, kind)


def _refuse(tool: str) -> NoReturn:
    raise OfflineError(f"kit.{tool} needs a network, and there is none here: the handler runs on recorded responses")


class OfflineAttempt(msgspec.Struct, frozen=True):
    """The result of an attempt without a network."""

    outcome: Outcome
    emitted: Emitted | None = None
    """The emitted records, if it completed."""
    signature: FailureSignature | None = None
    """The signature of its failure, if it failed."""


async def run_offline(
    handler: Handler,
    job: Job,
    exchanges: Iterable[Exchange],
    source: str,
    failure: Failure | None = None,
    browsers: OfflineBrowsers | None = None,
) -> OfflineAttempt:
    """Run a handler on a job; its requests, and those of its pages in `browsers`, are answered only from `exchanges`.

    `source` names their origin in messages, and `failure` is the failure of the recorded attempt, if it is to be
    reproduced. An async handler is cancelled at its timeout. A plain one runs in a thread, which cannot be cancelled.
    """
    exchanges = list(exchanges)
    answers = Answers(exchanges, source, failure, handler.block_pages)

    recorded: list[RecordedPages] = []

    def pages() -> tuple[OfflineBrowsers, RecordedPages]:
        from longshore.scrape.browser.offline import RecordedPages

        if browsers is None:
            _refuse("browser")
        if not recorded:
            recorded.append(RecordedPages(exchanges, source, failure))
        return browsers, recorded[0]

    def browser() -> AttemptBrowsers:
        among, kept = pages()
        return among.attempt(kept, handler.block_pages)

    def sync_browser() -> SyncAttemptBrowsers:
        among, kept = pages()
        return among.sync_attempt(kept, handler.block_pages)

    emission = Emission(handler.emits, handler.keep)
    log = structlog.get_logger()
    error: BaseException | None = None
    try:
        if handler.is_async:
            kit = AsyncKit(log, OfflineTools(OfflineHttp(answers), browser, emission), job, handler)
            value = await _in_time(handler.invoke(job, kit), handler)
        else:
            plain_kit = SyncKit(log, OfflineTools(OfflineSyncHttp(answers), sync_browser, emission), job, handler)
            value = await asyncio.to_thread(_call, handler, job, plain_kit)
        outcome = outcome_of(handler, job, value)
    except SystemExit as exit_:
        error = exit_
        outcome = outcome_of_error(handler, job, CrashedError(f"the handler called sys.exit({exit_.code!r})"))
    except Exception as raised:  # noqa: BLE001  any error of a handler becomes its outcome
        error = raised
        outcome = outcome_of_error(handler, job, raised)
    if isinstance(outcome, Failed):
        return OfflineAttempt(outcome, signature=signature_of(outcome.failure, handler.function, error))
    return OfflineAttempt(outcome, emission.emitted())


def _call(handler: Handler, job: Job, kit: SyncKit) -> object:
    value = handler.invoke(job, kit)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[object]) -> object:
    return await value


async def _in_time(value: Awaitable[object], handler: Handler) -> object:
    seconds = handler.timeout.total_seconds()
    try:
        async with asyncio.timeout(seconds) as limit:
            return await value
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOutError(f"it took longer than its {seconds:g} s and was ended") from None


def failure_of(attempt: OfflineAttempt) -> Failure | None:
    """Return the failure of the attempt; None if it did not fail."""
    return attempt.outcome.failure if isinstance(attempt.outcome, Failed) else None
