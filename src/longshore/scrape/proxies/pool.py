"""The pool: a proxy for every request, and a rest for those that fail.

Whoever fetches takes a turn for each try, and says how it went:

    async with pool.turn(host_of(url)) as turn:
        response = await http.get(url, proxy=turn.url)

An error that leaves the block is the verdict, and so is leaving it without one; `turn.answered(status)` says it where
an answer of 403 raises nothing, `turn.blocked("captcha")` where a page of 200 is none. Where every proxy rests, a turn
waits; no request ever goes out without one. A pool belongs to one event loop.
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
from longshore.scrape.proxies.counters import HostCounters, ProxyCounters, RequestCounter, RequestCounts
from longshore.scrape.proxies.health import EVERYWHERE, ProxyHealth, ProxyLimits, ProxyTrouble
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.scrape.proxies.strategies import Strategy, chooser
from longshore.system.first_of import first_of

_SOON = 60.0
_CAME_BACK = "a try after its rest went well"


class NoProxyError(ConnectionFailedError):
    """Every proxy rests, and none will be back in time. Worth another try after `retry_in`."""

    def __init__(self, message: str, retry_in: timedelta) -> None:
        super().__init__(message)
        self.retry_in = retry_in

    def __reduce__(self) -> tuple[type[NoProxyError], tuple[str, timedelta]]:
        return NoProxyError, (str(self), self.retry_in)


class ProxyPool:
    """Gives out proxies by a strategy, and keeps count of how each does at each host."""

    def __init__(
        self,
        proxies: Sequence[Proxy],
        *,
        strategy: Strategy = Strategy.ROUND_ROBIN,
        limits: ProxyLimits | None = None,
        tell: Callable[[ProxyChange], None] | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """`tell` is called with every change, such as a `ChangeLog`."""
        self.proxies = tuple(dict.fromkeys(proxies))
        if not self.proxies:
            raise ValueError("A pool needs at least one proxy.")
        # No secret hangs on which one is chosen.
        chance = chance or random.Random()  # noqa: S311
        self._chooser = chooser(strategy, [proxy.url for proxy in self.proxies], chance)
        self._health = ProxyHealth(limits or ProxyLimits())
        self._tell = tell
        self._clock = clock or SystemClock()
        self._all = tuple(range(len(self.proxies)))
        self._numbers = {proxy.url: number for number, proxy in enumerate(self.proxies)}
        self._tallies = RequestCounter(len(self.proxies))
        self._waiting: set[asyncio.Future[None]] = set()
        self._dry: set[str] = set()

    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> ProxyTurn:
        """A turn with a proxy for one request to this host (`host_of(url)`). The caller must end it, with a verdict.

        Waits while every proxy rests. `within` bounds the wait: `NoProxyError` as soon as it is certain that none will
        be back in time. `session` is what the sticky strategy sticks to. Of the proxies in `prefer`, by their URLs, the
        first that does not rest goes before what the strategy would choose.
        """
        deadline = math.inf if within is None else self._clock.monotonic() + within.total_seconds()
        while (turn := self._take(host, session, prefer)) is None:
            await self._wait(host, deadline)
        return turn

    @asynccontextmanager
    async def turn(self, host: str, *, session: str = "", within: timedelta | None = None) -> AsyncIterator[ProxyTurn]:
        """`acquire`, ended by how the block is left, unless the block has given its verdict before."""
        turn = await self.acquire(host, session=session, within=within)
        try:
            yield turn
        except BaseException as error:
            turn.failed(error)
            raise
        else:
            turn.succeeded()

    @property
    def moves(self) -> int:
        """Rises with every request and every change: while it is the same, so are the standings, but for the time."""
        return self._tallies.moves

    def standings(self) -> list[ProxyCounters]:
        """How every proxy has done, in the order of the list: at which hosts, who rests there, and why."""
        ailing: list[dict[str, ProxyTrouble]] = [{} for _ in self.proxies]
        for place, number, ailment in self._health.ailments():
            ailing[number][place] = ailment
        return [self._standing(number, ailing[number]) for number in self._all]

    def _standing(self, number: int, ailing: dict[str, ProxyTrouble]) -> ProxyCounters:
        tally, at = self._tallies.of(number), dict(self._tallies.places(number))
        if EVERYWHERE in ailing or tally.since is not None:
            at = {EVERYWHERE: tally, **at}
        places = [self._place(host, at.get(host) or RequestCounts(), ailing.get(host)) for host in {**at, **ailing}]
        return ProxyCounters(
            proxy=str(self.proxies[number]),
            requests=tally.requests,
            succeeded=tally.succeeded,
            failed=tally.failed,
            places=tuple(places),
        )

    def _take(self, host: str, session: str, prefer: Sequence[str]) -> ProxyTurn | None:
        now = self._clock.monotonic()
        open_ones = self._health.open_ones(self._all, host, now)
        if not open_ones:
            return None
        preferred = (self._numbers[url] for url in prefer if self._numbers.get(url) in open_ones)
        number = next(preferred, None)
        if number is None:
            number = self._chooser.choose(open_ones, host, session)
        tries = self._health.begin(number, host, now)
        self._tallies.begun(number, host)
        for place in tries:
            self._say(ProxyEvent.TRIES, number, place)
        if not tries:
            self._goes_on(host)
        return ProxyTurn(self, number, host, tries)

    async def _wait(self, host: str, deadline: float) -> None:
        """Until something may have changed for this host."""
        now = self._clock.monotonic()
        opens, trying = self._health.opens_at(self._all, host)
        self._say_once_that_it_waits(host, now, opens)
        # Nothing but time ends a rest, so what comes too late is known at once; a try may end at any moment.
        if now >= deadline or (opens > deadline and not trying):
            # A try under way is most likely over long before its provisional rest is.
            seconds = min(opens - now, _SOON) if trying else opens - now
            raise NoProxyError(
                f"No proxy is left for {host}: all {len(self.proxies)} rest. "
                f"The first may be tried again in {seconds:.0f} s; logs/proxies.log says why they rest.",
                timedelta(seconds=seconds),
            )
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(changed)
        try:
            await first_of(changed, self._clock.sleep(min(deadline, opens) - now))
        finally:
            self._waiting.discard(changed)

    def _say_once_that_it_waits(self, host: str, now: float, opens: float) -> None:
        # Where the proxies themselves are gone it is said once, and not for each of many hosts.
        place = host if self._health.open_ones(self._all, EVERYWHERE, now) else EVERYWHERE
        if place not in self._dry:
            self._dry.add(place)
            count = "the only one rests" if len(self.proxies) == 1 else f"all {len(self.proxies)} rest"
            self._say(ProxyEvent.WAITS, None, place, until=self._wall(opens), why=count)

    def _goes_on(self, host: str) -> None:
        """A proxy serves the host; with one that is only tried again, nobody can tell."""
        for place in self._dry & {EVERYWHERE, host} if self._dry else ():
            self._dry.discard(place)
            self._say(ProxyEvent.GOES_ON, None, place)

    def _end(self, turn: ProxyTurn, blame: Blame | None, why: str) -> None:
        """A verdict: a failure where somebody is to blame, otherwise a success."""
        number, now = turn.number, self._clock.monotonic()
        self._tallies.ended(number, turn.host, well=blame is None)
        if blame is Blame.PROXY:
            self._fail(turn, EVERYWHERE, now, why)
            if turn.host in turn.tries:
                self._health.give_back(number, turn.host, now)
        else:
            # It was reached, whatever the site said.
            self._succeed(turn, EVERYWHERE)
            if blame is None:
                self._succeed(turn, turn.host)
                self._goes_on(turn.host)
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
        if ailment := self._health.fail(turn.number, place, now, why, turn.tries):
            times = "1 failure" if ailment.failures == 1 else f"{ailment.failures} failures in a row, the last"
            self._say(ProxyEvent.RESTS, turn.number, place, until=self._wall(ailment.until), why=f"{times}: {why}")

    def _succeed(self, turn: ProxyTurn, place: str) -> None:
        if self._health.succeed(turn.number, place, turn.tries):
            self._say(ProxyEvent.SERVES, turn.number, place)

    def _wake(self) -> None:
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)

    def _say(
        self, what: ProxyEvent, number: int | None, host: str, *, until: float | None = None, why: str = ""
    ) -> None:
        now = self._clock.now()
        if number is not None:
            self._tallies.changed(number, host, now)
        if self._tell is not None:
            proxy = None if number is None else self.proxies[number]
            self._tell(ProxyChange(at=now, what=what, proxy=proxy, host=host, until=until, why=why))

    def _wall(self, instant: float | None) -> float | None:
        return None if instant is None else self._clock.now() + instant - self._clock.monotonic()

    def _place(self, host: str, tally: RequestCounts, ailment: ProxyTrouble | None) -> HostCounters:
        if ailment is None:
            state, failures, why, until = "serving", 0, "" if tally.since is None else _CAME_BACK, None
        else:
            resting = ailment.shut(self._clock.monotonic()) and not ailment.trying
            state = "serving" if ailment.until is None else "resting" if resting else "probation"
            failures, why = ailment.failures, ailment.why
            until = self._wall(ailment.until) if resting else None
        return HostCounters(
            host=host,
            state=state,
            requests=tally.requests,
            failed=tally.failed,
            failures=failures,
            why=why,
            since=tally.since,
            until=until,
        )


class ProxyTurn:
    """One request's turn with a proxy. Its first verdict counts; later ones are passed over."""

    def __init__(self, pool: ProxyPool, number: int, host: str, tries: tuple[str, ...]) -> None:
        self._pool = pool
        self._over = False
        self.number = number
        self.host = host
        self.tries = tries
        """Where it is the one request that probation lets through."""

    @property
    def proxy(self) -> Proxy:
        """The proxy; as text it is safe to show."""
        return self._pool.proxies[self.number]

    @property
    def url(self) -> str:
        """What clients take, password included."""
        return self.proxy.url

    def answered(self, status: int) -> None:
        """The site, or the proxy in its place, answered so. 403, 407, 429, 502, 503 and 504 are failures."""
        blame = blame_for_status(status)
        self._end(blame, "" if blame is None else f"answered {status_in_words(status)}")

    def judged(self, blame: Blame, why: str) -> None:
        """Whoever made the request has found out who is to blame, and why."""
        self._end(blame, why)

    def blocked(self, why: str) -> None:
        """What came is not the page but a way to turn us away: a captcha, a page that says so."""
        self._end(Blame.SITE, why)

    def succeeded(self) -> None:
        """The site served the page."""
        self._end(None, "")

    def failed(self, error: BaseException) -> None:
        """The request ended with this error. One that says nothing about the proxy only ends the turn."""
        if self._over:
            return
        if (status := status_of(error)) is not None:
            self.answered(status)
        elif (blame := blame_of(error)) is None:
            self.give_back()
        else:
            self._end(blame, in_words(error))

    def give_back(self) -> None:
        """End the turn without a verdict."""
        if not self._over:
            self._over = True
            self._pool._give_back(self)

    def _end(self, blame: Blame | None, why: str) -> None:
        if not self._over:
            self._over = True
            self._pool._end(self, blame, why)
