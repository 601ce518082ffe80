"""The log of a worker for a person who watches it: what it does, and how far it is.

Slow work tells its story: a sentence for each job, which ends with how far the run is. Fast work, more than about a job
a second, has one live line with the same facts, and only failures are printed. The phrases at the beginning of each
sentence are those of `LogReporter`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any

from longshore.clock import Clock
from longshore.errors import Failure
from longshore.lease import Lease
from longshore.observe.failure_fields import fields_of
from longshore.observe.health import Vitals
from longshore.observe.live_line import LiveLine
from longshore.outcome import Settlement
from longshore.url import mask_url
from longshore.worker.config import WorkerConfig
from longshore.worker.loop.stop_conditions import Snapshot
from longshore.worker.status.counters import WorkerReport
from longshore.worker.status.log_reporter import NAMES_SHOWN, LogReporter, name_of, names_of
from longshore.worker.status.run_figures import RunFigures

_WINDOW_SECONDS = 5.0
_FAST, _SLOW = 6, 2
"""Jobs in the window: from the first number on work is fast, and it stays fast until only the second are left."""
_BEFORE = len("12:00:00 ") + 3
"""The cells before a sentence on a terminal: the time, an emoji and a space."""
_SHORTEST_NAME = 12


class StoryReporter(LogReporter):
    """Writes sentences for people. With a `live` line, fast work is shown there; without one it is told, too.

    On the terminal of the live line the names of jobs are shortened so that a sentence has one line.
    """

    def __init__(self, config: WorkerConfig, clock: Clock, live: LiveLine | None = None) -> None:
        super().__init__(config, clock)
        self._live = live
        self.figures = RunFigures(clock, self._target)
        self._recent: deque[tuple[float, int]] = deque()
        self._fast = False
        self._failures_shown = 0

    def initialized(self, kinds: Sequence[str]) -> None:
        config = self._config
        what = f" of run {config.run}" if config.run else ""
        where = f", partitions {', '.join(sorted(config.partitions))}" if config.partitions else ""
        pause = f", {config.delay} s between two jobs" if config.delay.high else ""
        begin = f"Worker {config.worker.label} initialized"
        facts = (
            f"{', '.join(kinds)} jobs{what}{where}, {config.concurrency:,} at a time{pause}, "
            f"from {mask_url(config.queue_url)}"
        )
        room = self._room(begin)
        self._log.info(f"{begin}: {facts}" if room is None or len(facts) + 2 <= room else f"{begin}:\n{facts}")

    def claimed(self, leases: Sequence[Lease]) -> None:
        if not self._fast:
            super().claimed(leases)

    def completed(self, settlements: Sequence[Settlement], ended: int) -> None:
        self._note(len(settlements))
        if self._fast:
            self._finished += len(settlements)
        else:
            super().completed(settlements, ended)

    def failed(self, settlement: Settlement, finished: int, *, again: bool) -> None:
        self._note(not again)
        self._failures_shown += not again
        super().failed(settlement, finished, again=again)

    def no_work(self, snapshot: Snapshot, wait: float) -> None:
        # A worker that is between two claims of fast work says nothing; the live line tells how far it is.
        if not self._fast:
            super().no_work(snapshot, wait)

    def progress(self, vitals: Vitals, under_way: int, unwritten: int, remaining: int | None) -> None:
        # Each sentence says how far the work is; a line of its own is for trouble.
        if vitals.verdict != "healthy" or unwritten:
            super().progress(vitals, under_way, unwritten, remaining)

    def flush(self) -> None:
        super().flush()
        self._trim()
        if self._fast and sum(jobs for _, jobs in self._recent) <= _SLOW:
            self._fast = False
        failed = f", {self._failures_shown:,} failed" if self._failures_shown else ""
        self._show(f"📈 {self.figures.words}{failed}" if self._fast and self.figures.words else "")

    def stopping(self, reason: str) -> None:
        self._fast = False
        super().stopping(reason if self._live is None else reason.replace("SIGINT received", "Ctrl-C"))

    def hint(self, text: str) -> None:
        super().hint(text if self._live is None else text.replace("Send the signal once more", "Press Ctrl-C again"))

    def final(self, report: WorkerReport) -> None:
        room = self._room("Final statistics: ")
        if room is None or len(report.summary) <= room:
            super().final(report)
            return
        self.flush()
        self._log.info(f"Final statistics:\n{report.summary}")

    def _say_no_work(self, sentence: str, wait: float) -> None:
        room = self._room(f"{sentence}; next look in {wait:.1f} s")
        words = "next look" if room is None or room >= 0 else "again"
        self._log.info(f"{sentence}; {words} in {wait:.1f} s")

    def _say_claimed(self, leases: Sequence[Lease]) -> None:
        many = f"{len(leases):,} jobs: " if len(leases) > 1 else ""
        room = self._room(f"Claimed work {many}")
        self._log.info(f"Claimed work {many}{names_of(leases) if room is None else _fitting(leases, room)}")

    def _say_completed(self, settlement: Settlement, number: int) -> None:
        del number
        so_far = f": {self.figures.words}" if self.figures.words else ""
        name, room = name_of(settlement.lease.job), self._room(f"Completed work {so_far}")
        if room is not None and room < min(len(name), _SHORTEST_NAME):
            so_far = so_far.replace("about ", "")
        self._log.info(f"Completed work {name if room is None else shortened(name, room)}{so_far}")

    def _say_failed(self, settlement: Settlement, failure: Failure, plan: dict[str, Any], *, again: bool) -> None:
        write = self._log.warning if again else self._log.error
        fields = fields_of(failure)
        error, next_ = fields.pop("error", ""), plan.get("next", "")
        fields.pop("error_type", None)
        then = f"; {next_}" if next_ else ""
        write(f"Failed work {name_of(settlement.lease.job)}: {error}{then}", **fields)

    def _room(self, sentence: str) -> int | None:
        """Return how many cells are left after a sentence on its line; None if the log is on no terminal."""
        return None if self._live is None else self._live.columns - _BEFORE - len(sentence)

    def _note(self, jobs: int) -> None:
        self.figures.finished(jobs)
        self._recent.append((self._clock.monotonic(), jobs))
        self._trim()
        if self._live is not None and sum(count for _, count in self._recent) >= _FAST:
            self._fast = True

    def _trim(self) -> None:
        old = self._clock.monotonic() - _WINDOW_SECONDS
        while self._recent and self._recent[0][0] < old:
            self._recent.popleft()

    def _show(self, text: str) -> None:
        if self._live is not None:
            # The terminal may be gone; the work goes on.
            with contextlib.suppress(OSError, ValueError):
                self._live.show(text)


def shortened(name: str, room: int) -> str:
    """Return a name in `room` cells, or in the fewest that tell something: its end tells URLs apart best."""
    room = max(room, _SHORTEST_NAME)
    if len(name) <= room:
        return name
    beginning = max(0, (room - 1) // 3 if room >= 2 * _SHORTEST_NAME else 0)
    return f"{name[:beginning]}…{name[len(name) - (room - 1 - beginning) :]}"


def _fitting(leases: Sequence[Lease], room: int) -> str:
    """Return the names of the first jobs of a claim, as many as fit, and how many others there are."""
    names = [name_of(lease.job) for lease in leases]
    for shown in range(min(len(names), NAMES_SHOWN), 0, -1):
        text = _listed(names[:shown], len(names) - shown)
        if len(text) <= room:
            return text
    others = _listed([""], len(names) - 1)
    return shortened(names[0], room - len(others)) + others


def _listed(names: Sequence[str], others: int) -> str:
    return ", ".join(names) + (f" and {others:,} more" if others else "")


class QuietReporter(LogReporter):
    """Writes only trouble, failures and the end."""

    def initialized(self, kinds: Sequence[str]) -> None:
        """Write nothing."""

    def looking(self) -> None:
        """Write nothing."""

    def claimed(self, leases: Sequence[Lease]) -> None:
        """Write nothing."""

    def completed(self, settlements: Sequence[Settlement], ended: int) -> None:
        """Write nothing."""

    def lost_race(self) -> None:
        """Write nothing."""

    def no_work(self, snapshot: Snapshot, wait: float) -> None:
        """Write nothing."""

    def hosts_closed(self, hosts: frozenset[str]) -> None:
        """Write nothing."""

    def progress(self, vitals: Vitals, under_way: int, unwritten: int, remaining: int | None) -> None:
        if vitals.verdict != "healthy" or unwritten:
            super().progress(vitals, under_way, unwritten, remaining)
