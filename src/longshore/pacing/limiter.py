"""The learned limiter: all processes together ask each host as often as it allows.

`host_rate` says how the rate is learned, `host_gate` how requests wait for their slot, `store` where rates are shared.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import structlog

from longshore.clock import Clock, SystemClock
from longshore.errors import LongshoreError
from longshore.pacing.contract import HostClosedError
from longshore.pacing.host_gate import HostGate
from longshore.pacing.host_rate import RatePolicy
from longshore.pacing.store import LocalRateStore, RateStore

_MAX_GATES = 10_000
_LOOK_SECONDS = 1.0
_CAPACITY_SECONDS = 2.0

log = structlog.get_logger()


class LearnedLimiter:
    """A `Limiter` that learns. Without a store its rates are those of this process; with one, of all that share it.

    `policy` may be replaced at any time.
    """

    def __init__(
        self,
        store: RateStore | None = None,
        clock: Clock | None = None,
        *,
        policy: RatePolicy | None = None,
        machines: Callable[[], int] = lambda: 1,
    ) -> None:
        """`machines` returns how many stores like this one there are.

        The limits of `policy` and crawl delays are for all of them together, so each keeps to its share. A learned rate
        needs no such factor: each store learns its own share.
        """
        self.policy = policy or RatePolicy()
        self._clock = clock or SystemClock()
        self._store = store or LocalRateStore(self._clock)
        self._machines = machines
        self._gates: dict[tuple[str, str], HostGate] = {}
        self._crawl_delays: dict[str, float] = {}
        self._closed: dict[str, float] = {}
        self._looked_at = -math.inf
        self._looking: asyncio.Task[None] | None = None

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        """As `Limiter.slot`."""
        gate = self._gates.get((host, identity)) or self._new_gate(host, identity)
        if gate.try_pass():
            return
        try:
            await gate.wait(patience)
        except HostClosedError:
            # Known here before the store is read again: until then jobs would be claimed only to be given back.
            if not identity and (closed := gate.closed_for()) > _LOOK_SECONDS:
                self._closed[host] = self._clock.monotonic() + closed
            raise

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        """As `Limiter.answered`."""
        gate = self._gates.get((host, identity)) or self._new_gate(host, identity)
        gate.answered(status, retry_after, seconds)

    def crawl_delay(self, host: str, seconds: float) -> None:
        """As `Limiter.crawl_delay`, for every identity: robots.txt asks it of all."""
        self._crawl_delays[host] = seconds
        if (host, "") not in self._gates:
            self._new_gate(host, "")
        for (its_host, _), gate in self._gates.items():
            if its_host == host:
                gate.crawl_delay(seconds * self._machines())

    def capacity(self, host: str) -> int | None:
        """Return how many jobs of this host it makes sense to hold here: about two seconds' worth, at least one.

        0 while the host is closed; None if nothing is known of it. Costs next to nothing.
        """
        gate = self._gates.get((host, ""))
        if gate is None or (own_rate := gate.own_rate) is None:
            return 0 if host in self.closed_hosts() else None
        if gate.closed_for() > _LOOK_SECONDS:
            return 0
        return max(1, math.ceil(own_rate * _CAPACITY_SECONDS))

    def closed_hosts(self) -> frozenset[str]:
        """Return the closed hosts, as read from the store at most about a second ago. Call it in the event loop."""
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS and self._looking is None:
            self._looked_at = now
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return frozenset(host for host, until in self._closed.items() if until > now)

    async def close(self) -> None:
        """Write what was learned last, and stop. Closing twice is harmless. The store stays open."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        gates, self._gates = self._gates, {}
        for gate in gates.values():
            await gate.close()

    async def _look(self) -> None:
        try:
            now, closed = await self._store.closures()
            here = self._clock.monotonic()
            self._closed = {host: here + until - now for host, until in closed.items()}
        except LongshoreError as error:
            log.debug("The closed hosts could not be read", error=str(error))
        finally:
            self._looking = None

    def _new_gate(self, host: str, identity: str) -> HostGate:
        if len(self._gates) >= _MAX_GATES:
            # The store keeps what is known of a host; the gate only has a copy.
            self._gates = {name: gate for name, gate in self._gates.items() if not gate.idle}
        gate = self._gates[host, identity] = HostGate(host, identity, self._store, self._clock, self._current_policy)
        if host in self._crawl_delays:
            gate.crawl_delay(self._crawl_delays[host] * self._machines())
        return gate

    def _current_policy(self) -> RatePolicy:
        return self.policy.shared_by(self._machines())
