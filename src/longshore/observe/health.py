"""How a worker is: figures a person or a monitor looks at, and the verdict."""

from __future__ import annotations

import msgspec
import psutil

HEALTHY = "healthy"
# A worker whose last ten attempts all failed is most likely the trouble itself: a dead proxy, a missing browser.
_ERRORS_IN_A_ROW = 10
_MEMORY_PERCENT = 95.0
_CPU_PERCENT = 98.0


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's figures at one moment."""

    uptime: float
    """Seconds."""
    claimed: int
    completed: int
    failed: int
    """Jobs that failed for good."""
    retried: int = 0
    """Attempts that failed and whose job is tried again."""
    busy_seconds: float
    """The time all ended attempts took together."""
    errors_in_a_row: int
    queue_error: str = ""
    """Why the queue cannot be reached now; empty while it can."""
    queue_silence: float = 0.0
    """For how many seconds the queue has owed an answer; 0 while that is nothing to speak of."""
    memory_percent: float = 0.0
    """Of the machine."""
    memory_bytes: int = 0
    """Of the worker's own process."""
    cpu_percent: float = 0.0
    """Of the machine, since it was last asked."""

    @property
    def success_rate(self) -> float:
        """The share of ended attempts that completed; 1 while none has ended."""
        return self.completed / self.ended if self.ended else 1.0

    @property
    def average_seconds(self) -> float:
        """How long an attempt takes on average."""
        return self.busy_seconds / self.ended if self.ended else 0.0

    @property
    def ended(self) -> int:
        """Attempts that came to a verdict."""
        return self.completed + self.failed + self.retried

    @property
    def verdict(self) -> str:
        """`healthy`, or everything that speaks against it."""
        faults = []
        if self.queue_error:
            faults.append(f"the queue is out of reach ({self.queue_error})")
        elif self.queue_silence:
            faults.append(f"the queue does not answer (for {self.queue_silence:.0f} s now)")
        if self.errors_in_a_row >= _ERRORS_IN_A_ROW:
            faults.append(f"the last {self.errors_in_a_row} attempts all failed")
        if self.memory_percent >= _MEMORY_PERCENT:
            faults.append(f"{self.memory_percent:.0f} % of the machine's memory is used")
        if self.cpu_percent >= _CPU_PERCENT:
            faults.append(f"the processor is {self.cpu_percent:.0f} % busy")
        return "; ".join(faults) or HEALTHY


def memory_percent() -> float:
    """How much of the machine's memory is in use."""
    return float(psutil.virtual_memory().percent)


def memory_bytes() -> int:
    """How much memory this process uses."""
    return int(psutil.Process().memory_info().rss)


def cpu_percent() -> float:
    """How busy the machine's processors were since this was last asked."""
    return float(psutil.cpu_percent())
