"""A handler run on what was kept of its job, without a network: for `replay` and `reparse`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec
import structlog

from longshore.errors import CrashedError, Failure, ProcessingError, TimedOutError
from longshore.handlers.handler import Handler
from longshore.handlers.kit import Kit
from longshore.handlers.result import outcome_of, outcome_of_error
from longshore.job import Job
from longshore.outcome import Failed, Outcome
from longshore.scrape.exchange import Exchange
from longshore.scrape.offline import Answers, OfflineHttp, OfflineSyncHttp
from longshore.scrape.records import Emission, Emitted
from longshore.scrape.signature import Signature, signature_of


class OfflineError(ProcessingError):
    """A tool was asked for that needs a network."""

    retryable = False


class OfflineTools:
    """The tools of one attempt without a network: HTTP answers what was answered before, the rest is refused."""

    def __init__(self, answers: Answers, handler: Handler) -> None:
        self._answers = answers
        self.emission = Emission(handler.emits, handler.keep)

    def http(self, kit: Kit) -> OfflineHttp | OfflineSyncHttp:
        is_async = kit.handler is not None and kit.handler.is_async
        return OfflineHttp(self._answers) if is_async else OfflineSyncHttp(self._answers)

    def browser(self, kit: Kit) -> Any:
        del kit
        return _refuse("browser")

    def tor(self, kit: Kit) -> Any:
        del kit
        return _refuse("tor")

    def proxies(self, kit: Kit) -> Any:
        del kit
        return _refuse("proxies")

    def emit(self, kit: Kit, record: Any, kind: str) -> bool:
        del kit
        return self.emission.emit(record, kind)


def _refuse(tool: str) -> NoReturn:
    raise OfflineError(f"kit.{tool} needs a network, and there is none here: the handler runs on what was kept")


class OfflineAttempt(msgspec.Struct, frozen=True):
    """What came of it."""

    outcome: Outcome
    emitted: Emitted | None = None
    """What it emitted, where it completed."""
    signature: Signature | None = None
    """Of its failure, where it failed."""


async def run_offline(
    handler: Handler, job: Job, exchanges: Iterable[Exchange], source: str, failure: Failure | None = None
) -> OfflineAttempt:
    """Run a handler on a job, its requests answered from the exchanges and from nowhere else.

    `source` says whose they are, and `failure` how the attempt ended that they are of, where that is to be found again.
    An async handler is ended at its timeout. A plain one runs in a thread, and cannot be.
    """
    tools = OfflineTools(Answers(exchanges, source, failure), handler)
    kit = Kit(structlog.get_logger(), tools, job, handler)
    error: BaseException | None = None
    try:
        if handler.is_async:
            value = await _in_time(handler.invoke(job, kit), handler)
        else:
            value = await asyncio.to_thread(_call, handler, job, kit)
        outcome = outcome_of(handler, job, value)
    except SystemExit as exit_:
        error = exit_
        outcome = outcome_of_error(handler, job, CrashedError(f"the handler called sys.exit({exit_.code!r})"))
    except Exception as raised:  # noqa: BLE001  whatever a handler raises is its verdict
        error = raised
        outcome = outcome_of_error(handler, job, raised)
    if isinstance(outcome, Failed):
        return OfflineAttempt(outcome, signature=signature_of(outcome.failure, handler.function, error))
    return OfflineAttempt(outcome, tools.emission.emitted())


def _call(handler: Handler, job: Job, kit: Kit) -> Any:
    value = handler.invoke(job, kit)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value


async def _in_time(value: Any, handler: Handler) -> Any:
    seconds = handler.timeout.total_seconds()
    try:
        async with asyncio.timeout(seconds) as limit:
            return await value
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOutError(f"it took longer than its {seconds:g} s and was ended") from None


def failure_of(attempt: OfflineAttempt) -> Failure | None:
    """Why it failed; None where it did not."""
    return attempt.outcome.failure if isinstance(attempt.outcome, Failed) else None
