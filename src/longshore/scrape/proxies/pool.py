"""The proxy pool: it gives every request a proxy, and lets proxies that fail rest (a cooldown).

The caller takes a turn for each try and reports the outcome:

    async with pool.turn(host_of(url)) as turn:
        response = await http.get(url, proxy=turn.url)

An error that leaves the block counts as a failure, leaving it without an error as a success. Call
`turn.answered(status)` if a status such as 403 raises no error, and `turn.blocked("captcha")` if a page with status 200
is not the page wanted. While every proxy rests, a turn waits; the pool never gives out a turn without a proxy. A pool
belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from longshore.clock import Clock, SystemClock
from longshore.errors import ConnectionFailedError
from longshore.scrape.proxies.blame import Blame, blame_for_status, blame_of, in_words, status_in_words, status_of
from longshore.scrape.proxies.change_log import ProxyChange, ProxyEvent
from longshore.scrape.proxies.counters import HostCounters, ProxyCounters, ProxyTotals, RequestCounter, RequestCounts
from longshore.scrape.proxies.health import EVERYWHERE, ProxyHealth, ProxyLimits, ProxyTrouble
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.proxies.strategies import Strategy, chooser
from longshore.system.first_of import first_of

_TRIAL_SECONDS = 60.0
_CAME_BACK = "a try after its rest succeeded"


class NoProxyError(ConnectionFailedError):
    """Every proxy rests, and none will be back in time. Retryable after `retry_in`."""

    def __init__(self, message: str, retry_in: timedelta) -> None:
        super().__init__(message)
        self.retry_in = retry_in

    def __reduce__(self) -> tuple[type[NoProxyError], tuple[str, timedelta]]:
        return NoProxyError, (str(self), self.retry_in)


class ProxyPool:
    """Proxies given out by a strategy, with counters and health for each proxy at each host."""

    def __init__(
        self,
        proxies: Sequence[Proxy],
        *,
        strategy: Strategy = Strategy.ROUND_ROBIN,
        limits: ProxyLimits | None = None,
        tell: Callable[[ProxyChange], None] | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Make a pool; `tell`, for example a `ChangeLog`, is called with every change."""
        self.proxies = tuple(dict.fromkeys(proxies))
        if not self.proxies:
            raise ValueError("A pool needs at least one proxy.")
        # The choice need not be unpredictable, so a plain random generator is enough.
        rng = rng or random.Random()  # noqa: S311
        self._chooser = chooser(strategy, [proxy.url for proxy in self.proxies], rng)
        self._health = ProxyHealth(limits or ProxyLimits())
        self._on_change = tell
        self._clock = clock or SystemClock()
        self._all = tuple(range(len(self.proxies)))
        self._numbers = {proxy.url: number for number, proxy in enumerate(self.proxies)}
        self._counters = RequestCounter(len(self.proxies))
        self._waiting: set[asyncio.Future[None]] = set()
        self._waiting_hosts: set[str] = set()

    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> ProxyTurn:
        """Return a turn with a proxy for one request to `host` (`host_of(url)`). The caller must report its outcome.

        Wait while every proxy rests. `within` limits the wait: raise `NoProxyError` as soon as no proxy can be back in
        time. The sticky strategy keeps one proxy per `session`. The first URL in `prefer` whose proxy does not rest
        takes precedence over the strategy.
        """
        deadline = math.inf if within is None else self._clock.monotonic() + within.total_seconds()
        while (turn := self._take(host, session, prefer)) is None:
            await self._wait(host, deadline)
        return turn

    @asynccontextmanager
    async def turn(self, host: str, *, session: str = "", within: timedelta | None = None) -> AsyncIterator[ProxyTurn]:
        """Give a turn as `acquire` does; the way the block ends is its outcome, unless the block reported one."""
        turn = await self.acquire(host, session=session, within=within)
        try:
            yield turn
        except BaseException as error:
            turn.failed(error)
            raise
        else:
            turn.succeeded()

    @property
    def revision(self) -> int:
        """Increases with every request and change: while it is equal, `standings()` differs by time only."""
        return self._counters.revision

    def standings(self) -> list[ProxyCounters]:
        """Return the counters of every proxy, in the order of `proxies`: per host, with state and reason."""
        troubles: list[dict[str, ProxyTrouble]] = [{} for _ in self.proxies]
        for place, number, trouble in self._health.troubles():
            troubles[number][place] = trouble
        return [self._proxy_counters(number, troubles[number]) for number in self._all]

    def totals(self) -> ProxyTotals:
        """Return the sums over all proxies. Far cheaper than `standings`."""
        now = self._clock.monotonic()
        resting = probation = 0
        for place, _, trouble in self._health.troubles():
            if place != EVERYWHERE:
                break  # those at `EVERYWHERE` come first
            rests = trouble.rests(now) and not trouble.trying
            resting += rests
            probation += trouble.until is not None and not rests
        counts = [self._counters.of(number) for number in self._all]
        return ProxyTotals(
            serving=len(self._all) - resting - probation,
            resting=resting,
            probation=probation,
            succeeded=sum(each.succeeded for each in counts),
            failed=sum(each.failed for each in counts),
        )

    def _proxy_counters(self, number: int, troubles: dict[str, ProxyTrouble]) -> ProxyCounters:
        counts, at = self._counters.of(number), dict(self._counters.places(number))
        if EVERYWHERE in troubles or counts.since is not None:
            at = {EVERYWHERE: counts, **at}
        places = [
            self._host_counters(host, at.get(host) or RequestCounts(), troubles.get(host))
            for host in {**at, **troubles}
        ]
        return ProxyCounters(
            proxy=str(self.proxies[number]),
            requests=counts.requests,
            succeeded=counts.succeeded,
            failed=counts.failed,
            places=tuple(places),
        )

    def _take(self, host: str, session: str, prefer: Sequence[str]) -> ProxyTurn | None:
        now = self._clock.monotonic()
        available = self._health.available(self._all, host, now)
        if not available:
            return None
        preferred = (self._numbers[url] for url in prefer if self._numbers.get(url) in available)
        number = next(preferred, None)
        if number is None:
            number = self._chooser.choose(available, host, session)
        tries = self._health.begin(number, host, now)
        self._counters.begun(number, host)
        for place in tries:
            self._log_change(ProxyEvent.TRIES, number, place)
        if not tries:
            self._log_serving(host)
        return ProxyTurn(self, number, host, tries)

    async def _wait(self, host: str, deadline: float) -> None:
        """Wait until the state of a proxy at this host may have changed."""
        now = self._clock.monotonic()
        ends, trying = self._health.first_rest_ends_at(self._all, host)
        self._log_waiting(host, now, ends)
        # Only time ends a rest, so a rest that ends too late is known at once. A trial may end at any moment.
        if now >= deadline or (ends > deadline and not trying):
            # A trial in flight most likely ends long before its provisional rest.
            seconds = min(ends - now, _TRIAL_SECONDS) if trying else ends - now
            raise NoProxyError(
                f"No proxy is left for {host}: all {len(self.proxies)} rest. "
                f"The first may be tried again in {seconds:.0f} s; logs/proxies.log says why they rest.",
                timedelta(seconds=seconds),
            )
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(changed)
        try:
            await first_of(changed, self._clock.sleep(min(deadline, ends) - now))
        finally:
            self._waiting.discard(changed)

    def _log_waiting(self, host: str, now: float, ends: float) -> None:
        # If the proxies themselves fail, log it once and not for each of many hosts.
        place = host if self._health.available(self._all, EVERYWHERE, now) else EVERYWHERE
        if place not in self._waiting_hosts:
            self._waiting_hosts.add(place)
            count = "the only one rests" if len(self.proxies) == 1 else f"all {len(self.proxies)} rest"
            self._log_change(ProxyEvent.WAITS, None, place, until=self._wall_time(ends), why=count)

    def _log_serving(self, host: str) -> None:
        """Log that a proxy serves the host again. Not called for a trial, whose outcome is not known yet."""
        for place in self._waiting_hosts & {EVERYWHERE, host} if self._waiting_hosts else ():
            self._waiting_hosts.discard(place)
            self._log_change(ProxyEvent.GOES_ON, None, place)

    def _end(self, turn: ProxyTurn, blame: Blame | None, why: str) -> None:
        """Record an outcome: a failure if `blame` names a party, otherwise a success."""
        number, now = turn.number, self._clock.monotonic()
        self._counters.ended(number, turn.host, well=blame is None)
        if blame is Blame.PROXY:
            self._fail(turn, EVERYWHERE, now, why)
            if turn.host in turn.tries:
                self._health.give_back(number, turn.host, now)
        else:
            # The proxy was reached, whatever the site answered.
            self._succeed(turn, EVERYWHERE)
            if blame is None:
                self._succeed(turn, turn.host)
                self._log_serving(turn.host)
            else:
                self._fail(turn, turn.host, now, why)
        if turn.tries:
            self._wake()

    def _give_back(self, turn: ProxyTurn) -> None:
        for place in turn.tries:
            self._health.give_back(turn.number, place, self._clock.monotonic())
        if turn.tries:
            self._wake()

    def _fail(self, turn: ProxyTurn, place: str, now: float, why: str) -> None:
        if trouble := self._health.fail(turn.number, place, now, why, turn.tries):
            times = "1 failure" if trouble.failures == 1 else f"{trouble.failures} failures in a row, the last"
            self._log_change(
                ProxyEvent.RESTS, turn.number, place, until=self._wall_time(trouble.until), why=f"{times}: {why}"
            )

    def _succeed(self, turn: ProxyTurn, place: str) -> None:
        if self._health.succeed(turn.number, place, turn.tries):
            self._log_change(ProxyEvent.SERVES, turn.number, place)

    def _wake(self) -> None:
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)

    def _log_change(
        self, what: ProxyEvent, number: int | None, host: str, *, until: float | None = None, why: str = ""
    ) -> None:
        now = self._clock.now()
        if number is not None:
            self._counters.changed(number, host, now)
        if self._on_change is not None:
            proxy = None if number is None else self.proxies[number]
            self._on_change(ProxyChange(at=now, what=what, proxy=proxy, host=host, until=until, why=why))

    def _wall_time(self, instant: float | None) -> float | None:
        return None if instant is None else self._clock.now() + instant - self._clock.monotonic()

    def _host_counters(self, host: str, counts: RequestCounts, trouble: ProxyTrouble | None) -> HostCounters:
        if trouble is None:
            state, failures, why, until = "serving", 0, "" if counts.since is None else _CAME_BACK, None
        else:
            resting = trouble.rests(self._clock.monotonic()) and not trouble.trying
            state = "serving" if trouble.until is None else "resting" if resting else "probation"
            failures, why = trouble.failures, trouble.why
            until = self._wall_time(trouble.until) if resting else None
        return HostCounters(
            host=host,
            state=state,
            requests=counts.requests,
            failed=counts.failed,
            failures=failures,
            why=why,
            since=counts.since,
            until=until,
        )


class ProxyTurn:
    """The use of a proxy for one request. The first outcome reported counts; later ones are ignored."""

    def __init__(self, pool: ProxyPool, number: int, host: str, tries: tuple[str, ...]) -> None:
        self._pool = pool
        self._over = False
        self.number = number
        self.host = host
        self.tries = tries
        """The places at which it is the trial request of a probation."""

    @property
    def proxy(self) -> Proxy:
        """The proxy; its text form masks the password."""
        return self._pool.proxies[self.number]

    @property
    def url(self) -> str:
        """The URL for HTTP clients, password included."""
        return self.proxy.url

    def answered(self, status: int) -> None:
        """Report the status that the site or the proxy answered. 403, 407, 429, 502, 503 and 504 are failures."""
        blame = blame_for_status(status)
        self._end(blame, "" if blame is None else f"answered {status_in_words(status)}")

    def judged(self, blame: Blame, why: str) -> None:
        """Report a failure whose cause the caller knows."""
        self._end(blame, why)

    def blocked(self, why: str) -> None:
        """Report that the site blocked us with a page, for example a captcha."""
        self._end(Blame.SITE, why)

    def succeeded(self) -> None:
        """Report that the site served the page."""
        self._end(None, "")

    def failed(self, error: BaseException) -> None:
        """Report the error of the request. An error that says nothing about the proxy only ends the turn."""
        if self._over:
            return
        if (status := status_of(error)) is not None:
            self.answered(status)
        elif (blame := blame_of(error)) is None:
            self.give_back()
        else:
            self._end(blame, in_words(error))

    def give_back(self) -> None:
        """End the turn without an outcome."""
        if not self._over:
            self._over = True
            self._pool._give_back(self)

    def _end(self, blame: Blame | None, why: str) -> None:
        if not self._over:
            self._over = True
            self._pool._end(self, blame, why)
