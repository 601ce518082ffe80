"""Other machines that push to the same branch: how many there are of late, and whose turn it should be.

Only one push gets through at a time, and each makes the others fetch and apply again. Machines that take turns waste
little; those that all rush do the same work many times, and the one with the shortest way wins every time. So who has
just got through lets about as many others pass as there are before it pushes again, and who has been passed by that
many does not wait any more. Nobody needs to agree on anything: the commits say who pushed. Who pushes without a break
and sees nobody might be the very reason why it sees nobody, so it leaves a gap now and then, less and less often.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

_OF_LATE = 20.0
"""Seconds for which a machine that has pushed counts as one that will."""

_FIRST_GAP, _LAST_GAP = 8, 512


class PushContention:
    """What one machine has seen of the others. Instants are given by the caller, from one monotonic clock."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._pushed: deque[tuple[float, str]] = deque()
        self._passed = 0
        """Pushes of others since our own last one."""
        self._streak, self._gap_after, self._won_at = 0, _FIRST_GAP, float("-inf")
        """Our pushes without a break, how many of them call for a gap, and when the last one was."""
        self.attempt_seconds = 0.1
        """How long a try takes, from the look at the remote to the end of the push."""

    def saw(self, authors: Iterable[str], now: float) -> None:
        """These machines have pushed, the last of them first."""
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

    def took(self, seconds: float) -> None:
        """A try has taken so long."""
        self.attempt_seconds += (seconds - self.attempt_seconds) / 4

    def won(self, now: float) -> None:
        """Our push was accepted."""
        self._passed = 0
        self._streak = self._streak + 1 if now - self._won_at < 2 * self.attempt_seconds else 0
        self._won_at = now

    def is_stale(self, since: float, now: float) -> bool:
        """Whether someone has probably pushed since that instant."""
        return self._rate(now) * (now - since) > 0.7

    def pause(self, now: float, *, refused: bool) -> float:
        """Seconds to wait before the next try: a part, by chance, of the turns that are not ours."""
        if self._streak >= self._gap_after:
            self._streak, self._gap_after = 0, min(2 * self._gap_after, _LAST_GAP)
            return 4 * self.attempt_seconds  # enough for another to fetch and to push
        rate = self._rate(now)
        if rate * self.attempt_seconds < 0.1 and not refused:
            return 0.0
        others = len({author for _, author in self._pushed})
        # Who was refused has met someone at the same moment, and must not meet them again.
        turns = max(others - self._passed, max(others / 2, 1) if refused else 0)
        return random.random() * turns * self.attempt_seconds  # noqa: S311 - jitter, no secret

    def _rate(self, now: float) -> float:
        while self._pushed and self._pushed[0][0] < now - _OF_LATE:
            self._pushed.popleft()
        if not self._pushed:
            return 0.0
        return len(self._pushed) / max(now - self._pushed[0][0], self.attempt_seconds)
