"""The learned pace: each host is asked as often as it allows, by all processes together.

`rate` says how the rate is learned, `turnstile` how requests wait for their turn, `pace_shelf` where it is shared.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import msgspec
import structlog

from longshore.clock import Clock, SystemClock
from longshore.errors import LongshoreError
from longshore.pacing.contract import HostClosedError
from longshore.pacing.host_gate import HostGate
from longshore.pacing.host_rate import RatePolicy
from longshore.pacing.store import LocalRateStore, RateStore

_MOST_TURNSTILES = 10_000
_LOOK_SECONDS = 1.0
_ROOM_SECONDS = 2.0

log = structlog.get_logger()


class LearnedLimiter:
    """A `Pace` that learns. Without a shelf it is this process's alone; with a shared one, everybody's who has it."""

    def __init__(
        self,
        shelf: RateStore | None = None,
        clock: Clock | None = None,
        *,
        policy: RatePolicy | None = None,
        machines: Callable[[], int] = lambda: 1,
    ) -> None:
        """`machines` is how many shelves like this one there are: delays that are fixed are stretched by it.

        What is learned is learned for each shelf by itself, and comes to a share.
        """
        self._clock = clock or SystemClock()
        self._shelf = shelf or LocalRateStore(self._clock)
        self._policy = policy or RatePolicy()
        self._machines = machines
        self._turnstiles: dict[tuple[str, str], HostGate] = {}
        self._crawl_delays: dict[str, float] = {}
        self._closed: dict[str, float] = {}
        self._looked_at = -math.inf
        self._looking: asyncio.Task[None] | None = None

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        """As `Pace.slot`."""
        turnstile = self._turnstiles.get((host, identity)) or self._new(host, identity)
        if turnstile.pass_now():
            return
        try:
            await turnstile.wait(patience)
        except HostClosedError:
            # Known here before it is read from the shelf: until then jobs would be claimed only to be given back.
            if not identity and (closed := turnstile.closed_for()) > _LOOK_SECONDS:
                self._closed[host] = self._clock.monotonic() + closed
            raise

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        """As `Pace.answered`."""
        turnstile = self._turnstiles.get((host, identity)) or self._new(host, identity)
        turnstile.answered(status, retry_after, seconds)

    def crawl_delay(self, host: str, seconds: float) -> None:
        """As `Pace.crawl_delay`, for every identity: robots.txt asks it of all."""
        self._crawl_delays[host] = seconds
        if (host, "") not in self._turnstiles:
            self._new(host, "")
        for (its_host, _), turnstile in self._turnstiles.items():
            if its_host == host:
                turnstile.crawl_delay(seconds * self._machines())

    def room(self, host: str) -> int | None:
        """How many jobs of this host it makes sense for this process to hold: about two seconds' worth, at least one.

        0 while it is closed; None where nothing is known of it. Costs next to nothing.
        """
        turnstile = self._turnstiles.get((host, ""))
        if turnstile is None or turnstile.standing is None:
            return 0 if host in self.closed() else None
        if turnstile.closed_for() > _LOOK_SECONDS:
            return 0
        return max(1, math.ceil(turnstile.standing.rate * turnstile.share * _ROOM_SECONDS))

    def closed(self) -> frozenset[str]:
        """The hosts that are closed, by what was seen on the shelf a second ago. To be called in the event loop."""
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS and self._looking is None:
            self._looked_at = now
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return frozenset(host for host, until in self._closed.items() if until > now)

    async def close(self) -> None:
        """Write down what was learned last, and stop. Closing twice is harmless."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        turnstiles, self._turnstiles = self._turnstiles, {}
        for turnstile in turnstiles.values():
            await turnstile.close()

    async def _look(self) -> None:
        try:
            now, closed = await self._shelf.closures()
            here = self._clock.monotonic()
            self._closed = {host: here + until - now for host, until in closed.items()}
        except LongshoreError as error:
            log.debug("Which hosts are closed could not be read", error=str(error))
        finally:
            self._looking = None

    def _new(self, host: str, identity: str) -> HostGate:
        if len(self._turnstiles) >= _MOST_TURNSTILES:
            # What is known of a host is on the shelf; here it is only remembered.
            self._turnstiles = {name: each for name, each in self._turnstiles.items() if not each.idle}
        made = self._turnstiles[host, identity] = HostGate(host, identity, self._shelf, self._clock, self._policy_now)
        if host in self._crawl_delays:
            made.crawl_delay(self._crawl_delays[host] * self._machines())
        return made

    def _policy_now(self) -> RatePolicy:
        policy, machines = self._policy, self._machines()
        if policy.delay is None or machines == 1:
            return policy
        low, high = policy.delay
        return msgspec.structs.replace(policy, delay=(low * machines, high * machines))
