"""How often a register may be asked: by a token bucket or a sliding window, with bans beyond that."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """The answer to a request."""

    SERVED = "served"
    TOO_MANY = "429 with Retry-After"
    TOO_MANY_SILENT = "429 without Retry-After"
    BLOCKED = "block page with status 200"
    BANNED = "403"


@dataclass(frozen=True)
class LimitOptions:
    """The limits of one register."""

    rate: float
    """Requests a second."""
    refusal: Verdict
    """The answer to a request beyond the limit."""
    sliding: bool = False
    """A sliding window of `window` seconds instead of a token bucket."""
    burst: int = 20
    """What the bucket holds."""
    window: float = 10.0
    ban_after: int = 60
    """Refusals within a window that lead to a ban."""
    ban_seconds: float = 15.0


class Limits:
    """The limits of one register, for all who ask."""

    def __init__(self, options: LimitOptions) -> None:
        self._options = options
        self._tokens = float(options.burst)
        self._at = 0.0
        self._served: deque[float] = deque()
        self._refused: deque[float] = deque()
        self._banned_until = 0.0

    def judge(self, now: float) -> Verdict:
        """Return the answer to a request at this moment, a monotonic time."""
        options = self._options
        if now < self._banned_until:
            return Verdict.BANNED
        if self._in_window(now) if options.sliding else self._in_bucket(now):
            return Verdict.SERVED
        self._refused.append(now)
        while self._refused[0] < now - options.window:
            self._refused.popleft()
        if len(self._refused) < options.ban_after:
            return options.refusal
        self._banned_until = now + options.ban_seconds
        self._refused.clear()
        return Verdict.BANNED

    def _in_bucket(self, now: float) -> bool:
        options = self._options
        self._tokens = min(options.burst, self._tokens + (now - self._at) * options.rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _in_window(self, now: float) -> bool:
        options = self._options
        while self._served and self._served[0] <= now - options.window:
            self._served.popleft()
        if len(self._served) >= options.rate * options.window:
            return False
        self._served.append(now)
        return True
