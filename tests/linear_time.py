"""Hold a function to linear time: eight times the text may cost at most 24 times the processor time.

The square would cost 64 times. The processor time of this thread is measured, which does not depend on the load of the
machine, and the least of several measurements counts, which contains no pause of the garbage collector.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SMALL, FACTOR, ALLOWED = 2_000, 8, 24
_TOO_FAST_TO_JUDGE = 0.010


def assert_linear(function: Callable[[T], object], make: Callable[[int], T], small: int = SMALL) -> None:
    """Fail if the time of `function(make(n))` grows faster than `n`."""
    few, many = _seconds(function, make(small)), _seconds(function, make(small * FACTOR))
    if many > _TOO_FAST_TO_JUDGE:
        assert many / few <= ALLOWED, f"{FACTOR} times the input took {many / few:.0f} times as long ({many:.3f} s)"


def _seconds(function: Callable[[T], object], argument: T) -> float:
    best = float("inf")
    for _ in range(3):
        begin = time.thread_time()
        function(argument)
        best = min(best, time.thread_time() - begin)
        if best > 1.0:
            break
    return max(best, 1e-6)
