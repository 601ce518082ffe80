"""Why the worker ends, how soon, and with which code.

The first reason counts: it drains the worker. A failure on top of it changes the code, and is said aloud too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.settler import Settler
from longshore.worker.status.counters import Exit
from longshore.worker.status.log_reporter import LogReporter

LEAVE_SECONDS = 5.0
"""What anything may still take when the worker leaves at once."""


class Shutdown:
    """The one who decides that it ends."""

    def __init__(
        self, stopping: asyncio.Event, reporter: LogReporter, hand: HeldLeases, settler: Settler, lease: timedelta
    ) -> None:
        """`stopping` is set when nothing more is to be claimed."""
        self._stopping = stopping
        self._reporter = reporter
        self._hand = hand
        self._settler = settler
        self._lease = lease
        self._failure = ""
        self.reason = ""
        self.code = Exit.OK
        self.at_once = asyncio.Event()
        """Set by the second signal: what is under way is ended too."""

    def stop(self, reason: str) -> None:
        """Drain, for this reason."""
        self._stop(reason, self._reporter.stopping)

    def fail(self, reason: str) -> None:
        """Drain, because it cannot go on."""
        if self.code is Exit.OK:
            self.code = Exit.FAILED
        if reason == self._failure:
            return
        self._failure = reason
        if self._stopping.is_set():
            # It stops for another reason, and ends with a code that this one explains.
            self._reporter.failed_while_stopping(reason)
        else:
            self._stop(reason, self._reporter.stopping_in_failure)

    def signalled(self, name: str, count: int) -> None:
        """A signal came, the `count`th."""
        if count == 1:
            self.stop(f"{name} received; {self._what_is_left}")
            self._reporter.hint("Once more to give them back and leave at once")
        elif not self.at_once.is_set():
            self.code = Exit.INTERRUPTED
            self.reason = f"{name} received twice; everything in hand is given back"
            self._stopping.set()
            self.at_once.set()
            self._reporter.stopping(self.reason)

    def terminal_gone(self) -> None:
        """The terminal that it ran in was closed."""
        self.stop(f"the terminal was closed; {self._what_is_left}")

    @property
    def patience(self) -> float | None:
        """Seconds of trouble: while there is work, any; when stopping, what a lease lasts; when leaving, hardly any."""
        if not self._stopping.is_set():
            return None
        return LEAVE_SECONDS if self.at_once.is_set() else self._lease.total_seconds()

    def _stop(self, reason: str, say: Callable[[str], None]) -> None:
        if not self._stopping.is_set():
            self.reason = reason
            # First the deed, then the word: a log that cannot be written must not keep the worker from stopping.
            self._stopping.set()
            say(reason)

    @property
    def _what_is_left(self) -> str:
        waiting = self._settler.busy
        outcomes = "1 outcome waits" if waiting == 1 else f"{waiting:,} outcomes wait"
        return f"finishing {self._hand.under_way} jobs under way" + (f", {outcomes} to be written" if waiting else "")
