"""Values as people read them: text that is safe on a terminal, times, durations, rates, sizes, numbers with nouns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from longshore.stored import LATEST
from longshore.system.printable import printable

_ZONES_SECONDS = 2 * 86400.0
"""More than the time zones of the world differ: the last second of the calendar has no time in some of them."""


def one_line(text: str, limit: int = 200) -> str:
    """Return the text without line breaks, cut to `limit` characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip("…") + "…"


def moment(instant: float | None) -> str:
    """Return a point in time, in the time zone of the machine."""
    if instant is None:
        return ""
    return datetime.fromtimestamp(shown_instant(instant), UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def shown_instant(instant: float) -> float:
    """Return the instant, or the nearest that every calendar has: others may have written any number to the queue."""
    return min(max(instant, 0.0), LATEST - _ZONES_SECONDS)


def since(instant: float) -> str:
    """Return how long ago a point in time was."""
    return f"{duration(max(time.time() - instant, 0))} ago"


def duration(seconds: float) -> str:
    """Return a duration: `4.2 s`, `3 min 10 s`, `2 h 05 min`, `3 days 4 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


def set_aside(rejected: int, where: str, whose: str = "this run") -> str:
    """Return the words for jobs that no counter includes, because their files are damaged or gone."""
    was, is_ = ("was", "is") if rejected == 1 else ("were", "are")
    files = counted(rejected, "file")
    return f"{files} of {whose} {was} rejected or removed by hand, and {is_} not counted: see {where}"


def not_seen(workers: int, seconds: float) -> str:
    """Return the words for workers that did not renew for longer than their lease."""
    return f"{counted(workers, 'worker')} not seen for {duration(seconds)}, and probably gone"


def left_words(seconds: float, soonest: float | None = None) -> str:
    """Return the time left: `3 min 10 s left`, or with `soonest`: `2 min 05 s to 3 min 10 s left`."""
    # The last jobs are often the slow ones; tenths of a second would promise too much.
    if seconds < 1:
        return "nearly done"
    begin = "" if soonest is None else f"{duration(soonest) if soonest >= 1 else '1 s'} to "
    return f"{begin}{duration(seconds)} left"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 job`, `2,000 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def rate(per_second: float) -> str:
    """Return a rate of jobs: per second, or per minute or hour when it is low."""
    if per_second >= 10:
        return f"{per_second:,.0f}/s"
    if per_second >= 1:
        return f"{per_second:.1f}/s"
    return f"{per_second * 60:.1f}/min" if per_second * 60 >= 1 else f"{per_second * 3600:.1f}/h"


def size_words(size: float) -> str:
    """Return a number of bytes: `980 bytes`, `3.1 KB`."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def reason_counts(reasons: Mapping[str, int]) -> str:
    """Return the reasons with their counts, the most frequent first: `9 too dear, 2 no title`."""
    return ", ".join(f"{number:,} {reason}" for reason, number in sorted(reasons.items(), key=lambda one: -one[1]))
