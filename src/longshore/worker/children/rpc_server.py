"""The worker's side of the calls of a child process: the limiter, the proxies and Tor belong to the whole worker.

The child asks by `ChildRequest` and tells by `ChildNotice` (see `wire`). One `RpcServer` serves one child, and gives
back the proxies that the child still had when it died.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import structlog

from longshore.errors import ProcessingError, SnoozeError, WorkerError
from longshore.pacing.contract import Limiter
from longshore.scrape.proxies import Blame, NoProxyError, ProxySource, TakenProxy
from longshore.scrape.tor import Tor
from longshore.worker.children.wire import ChildNotice, ChildReply, ChildRequest

log = structlog.get_logger()


class SharedTools(Protocol):
    """The tools that belong to the worker and that its children use too."""

    limiter: Limiter
    is_submitted: Callable[[str, str], Awaitable[bool]]

    def proxy_source(self) -> ProxySource:
        """Return the source of proxies. Raises `ProcessingError` if there is none."""

    def own_tor(self) -> Tor:
        """Return the worker's own Tor."""

    def browser_recycled(self, reason: str, count: int) -> None:
        """Count browsers of a child that were replaced."""


class RpcServer:
    """Serves one child, in the worker's event loop."""

    def __init__(self, shared: SharedTools, reply: Callable[[ChildReply], None]) -> None:
        self._shared = shared
        self._reply = reply
        self._taken: dict[int, TakenProxy] = {}
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()

    def requested(self, request: ChildRequest) -> None:
        """Answer a request, in a task of its own."""
        task = asyncio.create_task(self._serve(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def notified(self, notice: ChildNotice) -> None:
        """Act on a notice."""
        limiter = self._shared.limiter
        match notice.name, notice.arguments:
            case "answered", (host, identity, status, retry_after, seconds):
                limiter.answered(host, identity, status, retry_after, seconds)
            case "crawl_delay", (host, seconds):
                limiter.crawl_delay(host, seconds)
            case "browser_recycled", (reason, count):
                self._shared.browser_recycled(reason, count)
            case "verdict", (number, blame, why):
                taken = self._taken.pop(number, None)
                if taken is not None:
                    _end(taken, blame, why)

    def close(self) -> None:
        """Cancel open requests and give back proxies: the child is gone, or its attempt is over."""
        for task in self._tasks:
            task.cancel()
        for taken in self._taken.values():
            taken.give_back()
        self._taken.clear()

    async def _serve(self, request: ChildRequest) -> None:
        try:
            self._reply(ChildReply(request.number, await self._answer(request)))
        except SnoozeError as error:
            self._reply(ChildReply(request.number, error=str(error), snooze=error.snooze.total_seconds()))
        except NoProxyError as error:
            self._reply(ChildReply(request.number, error=str(error), snooze=error.retry_in.total_seconds()))
        except WorkerError as error:
            self._reply(ChildReply(request.number, error=str(error), retryable=error.retryable))
        except Exception as error:
            # Without a reply the child would wait until its attempt is ended.
            log.exception("A child process could not be served", asked_for=request.name)
            self._reply(ChildReply(request.number, error=str(error) or type(error).__name__))

    async def _answer(self, request: ChildRequest) -> Any:
        match request.name, request.arguments:
            case "slot", (host, identity, patience):
                return await self._shared.limiter.slot(host, identity, patience=patience)
            case "proxy", (host, session, within, prefer):
                return await self._take_proxy(host, session, within, prefer)
            case "tor", (session,):
                return await self._shared.own_tor().proxy(session)
            case "plain_tor", ():
                return await self._shared.own_tor().plain_proxy()
            case "is_submitted", (run, host):
                return await self._shared.is_submitted(run, host)
            case "new_identity", (session,):
                return await self._shared.own_tor().new_identity(session)
        raise ProcessingError(f"The worker knows no '{request.name}'.", retryable=False)

    async def _take_proxy(
        self, host: str, session: str, within: float | None, prefer: Sequence[str]
    ) -> tuple[int, str]:
        limit = None if within is None else timedelta(seconds=within)
        taken = await self._shared.proxy_source().acquire(host, session=session, within=limit, prefer=prefer)
        number = next(self._numbers)
        self._taken[number] = taken
        return number, taken.proxy.url


def _end(taken: TakenProxy, blame: str | None, why: str) -> None:
    match blame:
        case "":
            taken.succeeded()
        case None:
            taken.give_back()
        case _:
            taken.judged(Blame(blame), why)
