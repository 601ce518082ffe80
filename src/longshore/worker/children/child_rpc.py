"""How a child process uses what belongs to the whole worker: the pace, the proxies, Tor.

The child asks by `ChildRequest` and tells by `ChildNotice` (see `wire`). In the worker a `ChildServer` answers one child.
It gives back what that child still held when it died.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol

import structlog

from longshore.errors import ProcessingError, SnoozeError, WorkerError
from longshore.pacing.contract import HostClosedError, Limiter
from longshore.scrape.proxies import Blame, NoProxyError, ProxySource, TakenProxy, blame_of
from longshore.scrape.proxies.blame import blame_for_status, in_words, status_in_words, status_of
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.tor import Tor
from longshore.worker.children.wire import ChildNotice, ChildReply, ChildRequest, FromChild

log = structlog.get_logger()


class SharedTools(Protocol):
    """What the children of a worker share."""

    pace: Limiter

    def turns(self) -> ProxySource:
        """Who gives out proxies. Raises `ProcessingError` where nobody does."""

    def own_tor(self) -> Tor:
        """The worker's own Tor."""


class ChildServer:
    """Answers one child, in the worker's event loop."""

    def __init__(self, shared: SharedTools, reply: Callable[[ChildReply], None]) -> None:
        self._shared = shared
        self._reply = reply
        self._turns: dict[int, TakenProxy] = {}
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()

    def called(self, call: ChildRequest) -> None:
        """The child asks for something."""
        task = asyncio.create_task(self._serve(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def told(self, tell: ChildNotice) -> None:
        """The child has learnt something."""
        pace = self._shared.pace
        match tell.name, tell.arguments:
            case "answered", (host, identity, status, retry_after, seconds):
                pace.answered(host, identity, status, retry_after, seconds)
            case "crawl_delay", (host, seconds):
                pace.crawl_delay(host, seconds)
            case "verdict", (number, blame, why):
                turn = self._turns.pop(number, None)
                if turn is not None:
                    _end(turn, blame, why)

    def close(self) -> None:
        """The child is gone, or its attempt is over: nobody waits for answers, and turns it had are given back."""
        for task in self._tasks:
            task.cancel()
        for turn in self._turns.values():
            turn.give_back()
        self._turns.clear()

    async def _serve(self, call: ChildRequest) -> None:
        try:
            self._reply(ChildReply(call.number, await self._answer(call)))
        except SnoozeError as error:
            self._reply(ChildReply(call.number, error=str(error), snooze=error.snooze.total_seconds()))
        except NoProxyError as error:
            self._reply(ChildReply(call.number, error=str(error), snooze=error.retry_in.total_seconds()))
        except WorkerError as error:
            self._reply(ChildReply(call.number, error=str(error), retryable=error.retryable))
        except Exception as error:
            # The child must learn of it, or waits until its attempt is ended.
            log.exception("A child process could not be served", asked_for=call.name)
            self._reply(ChildReply(call.number, error=str(error) or type(error).__name__))

    async def _answer(self, call: ChildRequest) -> Any:
        match call.name, call.arguments:
            case "slot", (host, identity, patience):
                return await self._shared.pace.slot(host, identity, patience=patience)
            case "turn", (host, session, within, prefer):
                return await self._turn(host, session, within, prefer)
            case "tor", (session,):
                return await self._shared.own_tor().proxy(session)
            case "plain_tor", ():
                return await self._shared.own_tor().plain_proxy()
            case "new_identity", (session,):
                return await self._shared.own_tor().new_identity(session)
        raise ProcessingError(f"The worker knows no '{call.name}'.", retryable=False)

    async def _turn(self, host: str, session: str, within: float | None, prefer: Sequence[str]) -> tuple[int, str]:
        limit = None if within is None else timedelta(seconds=within)
        turn = await self._shared.turns().acquire(host, session=session, within=limit, prefer=prefer)
        number = next(self._numbers)
        self._turns[number] = turn
        return number, turn.proxy.url


def _end(turn: TakenProxy, blame: str | None, why: str) -> None:
    match blame:
        case "":
            turn.succeeded()
        case None:
            turn.give_back()
        case _:
            turn.judged(Blame(blame), why)


class WorkerConnection:
    """The child's end: asks the worker from any thread and any event loop."""

    def __init__(self, send: Callable[[FromChild], None]) -> None:
        self._send = send
        self._numbers = itertools.count()
        self._open: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()

    async def call(self, name: str, *arguments: Any) -> Any:
        """What the worker answers. Raises `SnoozeError` where it is too soon, `ProcessingError` where it cannot."""
        answer, number = self._expect()
        self._send(ChildRequest(number, name, arguments))
        return await asyncio.wrap_future(answer)

    def ask(self, name: str, *arguments: Any) -> Any:
        """The same for plain code, which waits."""
        answer, number = self._expect()
        self._send(ChildRequest(number, name, arguments))
        return answer.result()

    def tell(self, name: str, *arguments: Any) -> None:
        """Let the worker know."""
        self._send(ChildNotice(name, arguments))

    def _expect(self) -> tuple[Future[Any], int]:
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._open[number] = answer
        return answer, number

    def replied(self, reply: ChildReply) -> None:
        """The worker has answered."""
        with self._lock:
            answer = self._open.pop(reply.number, None)
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if not reply.error:
            answer.set_result(reply.value)
        elif reply.snooze is not None:
            answer.set_exception(SnoozeError(reply.error, reply.snooze))
        else:
            answer.set_exception(ProcessingError(reply.error, retryable=reply.retryable))


class RemoteLimiter:
    """The worker's pace, from a child."""

    def __init__(self, line: WorkerConnection) -> None:
        self._line = line

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        """As `Limiter.slot`."""
        try:
            await self._line.call("slot", host, identity, patience)
        except SnoozeError as error:
            why = str(error).partition(" s: ")[2] or str(error)
            raise HostClosedError(host, error.snooze.total_seconds(), why) from error

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        """As `Limiter.answered`."""
        self._line.tell("answered", host, identity, status, retry_after, seconds)

    def crawl_delay(self, host: str, seconds: float) -> None:
        """As `Limiter.crawl_delay`."""
        self._line.tell("crawl_delay", host, seconds)


class RemoteProxies:
    """The worker's proxies, from a child."""

    def __init__(self, line: WorkerConnection) -> None:
        self._line = line

    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> RemoteProxyTurn:
        """As `ProxyPool.acquire`."""
        limit = None if within is None else within.total_seconds()
        try:
            number, url = await self._line.call("turn", host, session, limit, prefer)
        except SnoozeError as error:
            raise NoProxyError(str(error), error.snooze) from error
        return RemoteProxyTurn(self._line, number, Proxy(url))


class SyncProxies:
    """The worker's proxies, for plain handlers: `with kit.proxies.turn(host) as turn`."""

    def __init__(self, line: WorkerConnection) -> None:
        self._line = line

    @contextmanager
    def turn(self, host: str, *, session: str = "", within: timedelta | None = None) -> Iterator[RemoteProxyTurn]:
        """As `ProxyPool.turn`."""
        limit = None if within is None else within.total_seconds()
        number, url = self._line.ask("turn", host, session, limit, ())
        turn = RemoteProxyTurn(self._line, number, Proxy(url))
        try:
            yield turn
        except BaseException as error:
            turn.failed(error)
            raise
        else:
            turn.succeeded()


class ChildTor:
    """The worker's own Tor, for plain handlers."""

    def __init__(self, line: WorkerConnection) -> None:
        self._line = line

    def proxy(self, session: str = "") -> str:
        """As `Tor.proxy`."""
        return str(self._line.ask("tor", session))

    def new_identity(self, session: str | None = None) -> None:
        """As `Tor.new_identity`."""
        self._line.ask("new_identity", session)


class RemoteProxyTurn:
    """A turn with one of the worker's proxies. Its first verdict counts."""

    def __init__(self, line: WorkerConnection, number: int, proxy: Proxy) -> None:
        self._line = line
        self._number = number
        self._over = False
        self.proxy = proxy
        """As text it is safe to show."""

    @property
    def url(self) -> str:
        """What clients take, password included."""
        return self.proxy.url

    def answered(self, status: int) -> None:
        """As `Turn.answered`."""
        blame = blame_for_status(status)
        if blame is None:
            self.succeeded()
        else:
            self._end(blame.value, f"answered {status_in_words(status)}")

    def judged(self, blame: Blame, why: str) -> None:
        """As `Turn.judged`."""
        self._end(blame.value, why)

    def blocked(self, why: str) -> None:
        """As `Turn.blocked`."""
        self._end(Blame.SITE.value, why)

    def succeeded(self) -> None:
        """As `Turn.succeeded`."""
        self._end("", "")

    def failed(self, error: BaseException) -> None:
        """As `Turn.failed`."""
        if (status := status_of(error)) is not None:
            self.answered(status)
        elif (blame := blame_of(error)) is None:
            self.give_back()
        else:
            self._end(blame.value, in_words(error))

    def give_back(self) -> None:
        """As `Turn.give_back`."""
        self._end(None, "")

    def _end(self, blame: str | None, why: str) -> None:
        if not self._over:
            self._over = True
            self._line.tell("verdict", self._number, blame, why)
