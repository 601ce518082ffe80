"""How often an address may ask the replica: by its number a token bucket or a sliding window, and bans for all."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum


class Verdict(Enum):
    """The answer to an address that asks."""

    SERVED = "served"
    TOO_MANY = "429 with Retry-After"
    TOO_MANY_SILENT = "429 without Retry-After"
    BLOCKED = "block page with status 200"
    BANNED = "403"


@dataclass(frozen=True)
class LimitOptions:
    """The limits for each address."""

    rate: float = 2.0
    """Requests a second."""
    burst: int = 5
    window: float = 10.0
    """Seconds of the sliding window, which holds `rate * window` requests."""
    ban_after: int = 25
    """Refusals within a window that lead to a ban."""
    ban_seconds: float = 20.0


@dataclass
class _Address:
    tokens: float
    at: float
    served: deque[float] = field(default_factory=deque)
    refused: deque[float] = field(default_factory=deque)
    banned_until: float = 0.0


class AddressLimits:
    """The limits of all addresses. The kind of an address follows from its number."""

    def __init__(self, options: LimitOptions) -> None:
        self._options = options
        self._addresses: defaultdict[int, _Address] = defaultdict(lambda: _Address(options.burst, 0.0))

    def judge(self, number: int, now: float) -> Verdict:
        """Return what address `number` gets at this moment, a monotonic time."""
        options, address = self._options, self._addresses[number]
        if now < address.banned_until:
            return Verdict.BANNED
        if self._has_room(number, address, now):
            return Verdict.SERVED
        address.refused.append(now)
        while address.refused[0] < now - options.window:
            address.refused.popleft()
        if len(address.refused) >= options.ban_after:
            address.banned_until = now + options.ban_seconds
            address.refused.clear()
            return Verdict.BANNED
        return (Verdict.TOO_MANY, Verdict.TOO_MANY_SILENT, Verdict.BLOCKED)[number % 3]

    def _has_room(self, number: int, address: _Address, now: float) -> bool:
        options = self._options
        if number % 3 == 0:
            address.tokens = min(options.burst, address.tokens + (now - address.at) * options.rate)
            address.at = now
            if address.tokens < 1:
                return False
            address.tokens -= 1
            return True
        while address.served and address.served[0] <= now - options.window:
            address.served.popleft()
        if len(address.served) >= options.rate * options.window:
            return False
        address.served.append(now)
        return True
