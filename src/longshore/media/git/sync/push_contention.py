"""Backoff between machines that push to the same branch: how many pushed recently, and whose turn it should be.

Only one push succeeds at a time, and each makes the other machines fetch and apply again. Machines that take turns
waste little work; machines that all push at once repeat their work many times, and the one with the fastest connection
always wins. So a machine whose push succeeded waits until about as many pushes of others have passed as there are other
machines; a machine that has already seen that many pushes does not wait. This needs no agreement: the commits name
their authors. A machine that pushes continuously and sees no other may itself be what keeps the others out, so it
leaves a gap now and then, with growing intervals.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

_RECENT = 20.0
"""Seconds for which a machine counts as active after a push."""

_FIRST_GAP, _LAST_GAP = 8, 512


class PushContention:
    """One machine's observations of the others. The caller passes all instants, from one monotonic clock."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._pushed: deque[tuple[float, str]] = deque()
        self._passed = 0
        """Pushes of others since our own last push."""
        self._streak, self._gap_after, self._won_at = 0, _FIRST_GAP, float("-inf")
        """Our consecutive pushes, the number after which we leave a gap, and the instant of the last push."""
        self.attempt_seconds = 0.1
        """The average duration of an attempt, from the fetch to the end of the push."""

    def record_pushes(self, authors: Iterable[str], now: float) -> None:
        """Record the authors of new pushes, newest first."""
        passed = 0
        for author in authors:
            if author == self._me:
                self._passed = 0
                break
            self._pushed.append((now, author))
            passed += 1
        self._passed += passed
        if passed:
            self._streak, self._gap_after = 0, _FIRST_GAP

    def record_attempt(self, seconds: float) -> None:
        """Record the duration of an attempt."""
        self.attempt_seconds += (seconds - self.attempt_seconds) / 4

    def record_success(self, now: float) -> None:
        """Record that our push was accepted."""
        self._passed = 0
        self._streak = self._streak + 1 if now - self._won_at < 2 * self.attempt_seconds else 0
        self._won_at = now

    def is_stale(self, since: float, now: float) -> bool:
        """Return whether another machine has probably pushed since `since`."""
        return self._rate(now) * (now - since) > 0.7

    def pause(self, now: float, *, refused: bool) -> float:
        """Return the seconds to wait before the next attempt: a random part of the turns of the others."""
        if self._streak >= self._gap_after:
            self._streak, self._gap_after = 0, min(2 * self._gap_after, _LAST_GAP)
            return 4 * self.attempt_seconds  # enough for another machine to fetch and push
        rate = self._rate(now)
        if rate * self.attempt_seconds < 0.1 and not refused:
            return 0.0
        others = len({author for _, author in self._pushed})
        # A refused push collided with another one; wait at least one turn, so that they do not collide again.
        turns = max(others - self._passed, max(others / 2, 1) if refused else 0)
        return random.random() * turns * self.attempt_seconds  # noqa: S311 - jitter, no secret

    def _rate(self, now: float) -> float:
        while self._pushed and self._pushed[0][0] < now - _RECENT:
            self._pushed.popleft()
        if not self._pushed:
            return 0.0
        return len(self._pushed) / max(now - self._pushed[0][0], self.attempt_seconds)
