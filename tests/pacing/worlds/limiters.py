"""The limiters of simulated hosts. Each answers a request at an instant, and says when it would accept the next one.

`free_at` returns the first instant at which a request would be accepted: the host and the oracle use it.
"""

from __future__ import annotations

import math
import random
from collections import deque
from typing import Protocol

EXACT = 1e-9


class HostLimiter(Protocol):
    """Decides which requests a host accepts."""

    period: float
    """The longest time for which it refuses by itself after it was asked too often."""

    def free_at(self, now: float, client: int) -> float:
        """Return the first instant from `now` on at which a request of this client would be accepted."""

    def accept(self, now: float, client: int) -> None:
        """Count an accepted request."""

    def refuse(self, now: float, client: int) -> None:
        """Count a refused request."""


class Bucket:
    """A token bucket: `rate` requests a second, and `burst` at once after a pause. As a meter, a leaky bucket."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = max(burst, 1.0)
        self.period = self.burst / rate
        self._tokens, self._at = self.burst, 0.0

    def free_at(self, now: float, client: int) -> float:
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        return now if self._tokens >= 1 - EXACT else now + (1 - self._tokens) / self.rate

    def accept(self, now: float, client: int) -> None:
        self.free_at(now, client)
        self._tokens -= 1

    def refuse(self, now: float, client: int) -> None:
        """Change nothing."""


class FixedWindow:
    """`most` requests in each window of `seconds`; windows begin at `phase`."""

    def __init__(self, most: int, seconds: float, phase: float) -> None:
        self.most = most
        self.period = seconds
        self._phase = phase
        self._window, self._count = -1, 0

    def free_at(self, now: float, client: int) -> float:
        window = math.floor((now + self._phase) / self.period + EXACT)
        if window > self._window:
            self._window, self._count = window, 0
        return now if self._count < self.most else (self._window + 1) * self.period - self._phase

    def accept(self, now: float, client: int) -> None:
        self.free_at(now, client)
        self._count += 1

    def refuse(self, now: float, client: int) -> None:
        """Change nothing."""


class SlidingLog:
    """`most` requests in any `seconds`."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.period = seconds
        self._log: deque[float] = deque()

    def free_at(self, now: float, client: int) -> float:
        log = self._log
        while log and log[0] <= now - self.period + EXACT:
            log.popleft()
        return now if len(log) < self.most else log[0] + self.period

    def accept(self, now: float, client: int) -> None:
        self._log.append(now)

    def refuse(self, now: float, client: int) -> None:
        """Change nothing."""


class SlidingCounter:
    """`most` requests in any `seconds`, estimated from the counts of this window and of the one before."""

    def __init__(self, most: int, seconds: float, phase: float) -> None:
        self.most = most
        self.period = seconds
        self._phase = phase
        self._window, self._count, self._before = 0, 0, 0

    def free_at(self, now: float, client: int) -> float:
        position = (now + self._phase) / self.period
        window = math.floor(position + EXACT)
        if window > self._window:
            self._before = self._count if window == self._window + 1 else 0
            self._window, self._count = window, 0
        into = max(position - window, 0.0)
        if self._before * (1 - into) + self._count + 1 <= self.most + EXACT:
            return now
        end = (window + 1) * self.period - self._phase
        if self._before and self._count + 1 <= self.most:
            return min(now + (1 - (self.most - self._count - 1) / self._before - into) * self.period, end)
        # In the next window this one counts in full at first.
        return end + max(1 - (self.most - 1) / max(self._count, 1), 0.0) * self.period

    def accept(self, now: float, client: int) -> None:
        self.free_at(now, client)
        self._count += 1

    def refuse(self, now: float, client: int) -> None:
        """Change nothing."""


class Together:
    """Several limiters: each must accept."""

    def __init__(self, *limiters: HostLimiter) -> None:
        self._limiters = limiters
        self.period = max(each.period for each in limiters)

    def free_at(self, now: float, client: int) -> float:
        while (later := max(each.free_at(now, client) for each in self._limiters)) > now + EXACT:
            now = later
        return now

    def accept(self, now: float, client: int) -> None:
        for each in self._limiters:
            each.accept(now, client)

    def refuse(self, now: float, client: int) -> None:
        for each in self._limiters:
            each.refuse(now, client)


class Changing:
    """Another limiter from each of the given instants on."""

    def __init__(self, *parts: tuple[float, HostLimiter]) -> None:
        self._parts = list(parts)
        self.period = max(each.period for _, each in parts)

    def _current(self, now: float) -> HostLimiter:
        while len(self._parts) > 1 and self._parts[1][0] <= now:
            self._parts.pop(0)
        return self._parts[0][1]

    def free_at(self, now: float, client: int) -> float:
        free = self._current(now).free_at(now, client)
        if len(self._parts) > 1 and free > self._parts[1][0]:
            return self.free_at(self._parts[1][0], client)
        return free

    def accept(self, now: float, client: int) -> None:
        self._current(now).accept(now, client)

    def refuse(self, now: float, client: int) -> None:
        self._current(now).refuse(now, client)


class Banning:
    """A limiter that accepts nothing for `ban` seconds after `most` refusals within `memory` seconds."""

    def __init__(self, limiter: HostLimiter, most: int, memory: float, ban: float) -> None:
        self._limiter = limiter
        self._most = most
        self._memory = memory
        self._ban = ban
        self.period = max(limiter.period, ban)
        self._violations: deque[float] = deque()
        self._until = -math.inf

    def free_at(self, now: float, client: int) -> float:
        return self._limiter.free_at(now, client) if now >= self._until else self._until

    def accept(self, now: float, client: int) -> None:
        self._limiter.accept(now, client)

    def refuse(self, now: float, client: int) -> None:
        if now < self._until:
            return
        self._violations.append(now)
        while self._violations[0] < now - self._memory:
            self._violations.popleft()
        if len(self._violations) >= self._most:
            self._until = now + self._ban
            self._violations.clear()


class PerAddress:
    """A limiter of its own for each client address."""

    def __init__(self, limiters: list[HostLimiter]) -> None:
        self._limiters = limiters
        self.addresses = len(limiters)
        self.period = max(each.period for each in limiters)

    def free_at(self, now: float, client: int) -> float:
        return self._limiters[client % len(self._limiters)].free_at(now, client)

    def accept(self, now: float, client: int) -> None:
        self._limiters[client % len(self._limiters)].accept(now, client)

    def refuse(self, now: float, client: int) -> None:
        self._limiters[client % len(self._limiters)].refuse(now, client)


class Capricious:
    """A limiter that refuses some requests for no reason."""

    def __init__(self, limiter: HostLimiter, share: float, chance: random.Random) -> None:
        self._limiter = limiter
        self._share = share
        self._chance = chance
        self.period = limiter.period

    def free_at(self, now: float, client: int) -> float:
        return self._limiter.free_at(now, client)

    def refuses_this(self) -> bool:
        return self._chance.random() < self._share

    def accept(self, now: float, client: int) -> None:
        self._limiter.accept(now, client)

    def refuse(self, now: float, client: int) -> None:
        self._limiter.refuse(now, client)


class Unbounded:
    """Accepts everything."""

    period = 0.0

    def free_at(self, now: float, client: int) -> float:
        return now

    def accept(self, now: float, client: int) -> None:
        """Change nothing."""

    def refuse(self, now: float, client: int) -> None:
        """Change nothing."""
