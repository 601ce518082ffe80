"""The throughput of a run: spans of time with the number of jobs finished in each. Memory is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from longshore.runs.watch.current_rate import WINDOW, CurrentRate

KEPT = 64
"""Largest number of spans. Beyond it, the older half is joined in pairs, so that the past has less detail."""
_FROM_SETTLED = 20


class ThroughputSpan(msgspec.Struct, frozen=True):
    """A span of time."""

    seconds: float
    finished: int
    """Jobs that finished in it."""
    slots: float | None = None
    """Attempts that could be in flight at once, or the number of workers; None if it was not known."""


class Throughput:
    """Spans in order, each from one sample to the next. Times are monotonic seconds."""

    def __init__(self, before: Iterable[ThroughputSpan] = ()) -> None:
        """`before` are spans from before the first sample."""
        self._spans: list[ThroughputSpan] = []
        # Measures the rate over the spans; its times are the sums of their lengths.
        self._rate = CurrentRate()
        self._seconds, self._finished = 0.0, 0
        self._rate.note(self._seconds, self._finished)
        for span in before:
            self._add(span)
        self._seen: tuple[float, int] | None = None
        self._idle_since: float | None = None
        self._finished_at = float("-inf")

    @property
    def spans(self) -> tuple[ThroughputSpan, ...]:
        """All spans, oldest first."""
        return tuple(self._spans)

    @property
    def idle(self) -> float:
        """Seconds since a job was last seen to finish, or since the first sample if none was."""
        if self._seen is None or self._idle_since is None:
            return 0.0
        return self._seen[0] - self._idle_since

    @property
    def going(self) -> bool:
        """Whether a job was seen to finish within the last half minute."""
        return self._seen is not None and self._seen[0] - self._finished_at <= WINDOW

    @property
    def per_second(self) -> float:
        """Jobs per second over the last half minute; 0 before anything is known."""
        return self._rate.per_second

    def note(self, now: float, finished: int, slots: float | None = None) -> None:
        """Record that `finished` jobs are finished at the time `now`, and that `slots` attempts may be in flight."""
        if self._seen is None:
            self._seen, self._idle_since = (now, finished), now
            return
        then, before = self._seen
        if now <= then:
            return
        # A retry makes finished jobs unfinished again, which must not count as negative work.
        new = max(finished - before, 0)
        self._add(ThroughputSpan(now - then, new, slots))
        if new:
            self._idle_since = self._finished_at = now
        self._seen = (now, finished)

    def _add(self, span: ThroughputSpan) -> None:
        self._spans.append(span)
        self._seconds, self._finished = self._seconds + span.seconds, self._finished + span.finished
        self._rate.note(self._seconds, self._finished)
        if len(self._spans) > KEPT:
            old, recent = self._spans[: KEPT // 2], self._spans[KEPT // 2 :]
            self._spans = [_joined(pair) for pair in zip(old[::2], old[1::2], strict=True)] + recent


def spans_of(settled: Sequence[float], began: float, now: float) -> list[ThroughputSpan]:
    """Return spans from `began` until `now`, from the times at which all finished jobs were settled."""
    length = (now - began) / _FROM_SETTLED
    if length <= 0:
        return []
    counts = [0] * _FROM_SETTLED
    for instant in settled:
        counts[min(max(int((instant - began) / length), 0), _FROM_SETTLED - 1)] += 1
    return [ThroughputSpan(length, count) for count in counts]


def _joined(spans: Sequence[ThroughputSpan]) -> ThroughputSpan:
    seconds = sum(span.seconds for span in spans)
    known = [(span.seconds, span.slots) for span in spans if span.slots is not None]
    slots = sum(length * slots for length, slots in known) / sum(length for length, _ in known) if known else None
    return ThroughputSpan(seconds, sum(span.finished for span in spans), slots)
