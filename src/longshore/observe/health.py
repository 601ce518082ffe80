"""The health of a worker: figures for people and monitoring, and the verdict."""

from __future__ import annotations

import msgspec
import psutil

from longshore.clock import Clock

HEALTHY = "healthy"
# If the last ten attempts of a worker all failed, the cause is probably the worker: a dead proxy, a missing browser.
_ERRORS_IN_A_ROW = 10
_MEMORY_PERCENT = 95.0
_CPU_PERCENT = 98.0
_MEMORY_SECONDS, _CPU_SECONDS = 10.0, 60.0
"""Between two measurements."""


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's figures at one moment."""

    uptime: float
    """Seconds."""
    claimed: int
    completed: int
    failed: int
    """Jobs that failed finally."""
    retried: int = 0
    """Attempts that failed and whose job is retried."""
    busy_seconds: float
    """The total duration of all ended attempts."""
    errors_in_a_row: int
    queue_error: str = ""
    """The reason why the queue cannot be reached now; empty if it can."""
    queue_silence: float = 0.0
    """Seconds for which the queue has not answered a call; 0 if that is short."""
    memory_percent: float = 0.0
    """Memory use of the machine."""
    memory_bytes: int = 0
    """Memory use of the worker's process."""
    cpu_percent: float = 0.0
    """Processor use of the machine over the last minute or two."""
    waits_for: str = ""
    """The things that the worker needs to begin a job and why each is missing; empty if it waits for nothing."""
    failed_check: str = ""
    """Which of the handlers' own health checks failed last, and how; empty if none did."""

    @property
    def success_rate(self) -> float:
        """The share of ended attempts that completed; 1 while none has ended."""
        return self.completed / self.ended if self.ended else 1.0

    @property
    def average_seconds(self) -> float:
        """The average duration of an attempt."""
        return self.busy_seconds / self.ended if self.ended else 0.0

    @property
    def ended(self) -> int:
        """The number of ended attempts."""
        return self.completed + self.failed + self.retried

    @property
    def verdict(self) -> str:
        """`healthy`, or a list of all problems."""
        faults = []
        if self.queue_error:
            faults.append(f"the queue is out of reach ({self.queue_error})")
        elif self.queue_silence:
            faults.append(f"the queue does not answer (for {self.queue_silence:.0f} s now)")
        if self.waits_for:
            faults.append(f"waits for {self.waits_for}")
        if self.failed_check:
            faults.append(self.failed_check)
        if self.errors_in_a_row >= _ERRORS_IN_A_ROW:
            faults.append(f"the last {self.errors_in_a_row} attempts all failed")
        if self.memory_percent >= _MEMORY_PERCENT:
            faults.append(f"{self.memory_percent:.0f} % of the machine's memory is used")
        if self.cpu_percent >= _CPU_PERCENT:
            faults.append(f"the processor is {self.cpu_percent:.0f} % busy")
        return "; ".join(faults) or HEALTHY


class MachineUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of memory and processor."""

    memory_percent: float = 0.0
    """Memory use of the machine."""
    memory_bytes: int = 0
    """Memory use of this process."""
    cpu_percent: float = 0.0
    """Processor use of the machine over the last minute or two; 0 in the first minute."""


class MachineLoad:
    """Measures memory every ten seconds, and the processor over a minute: work may well keep it busy for seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = MachineUse()
        self._memory_at = float("-inf")
        self._cpu_at = clock.monotonic()
        cpu_percent()

    def measured(self) -> MachineUse:
        """Return the last measurement, repeated if it is old."""
        now = self._clock.monotonic()
        if now - self._memory_at >= _MEMORY_SECONDS:
            self._memory_at = now
            self._last = msgspec.structs.replace(
                self._last, memory_percent=memory_percent(), memory_bytes=memory_bytes()
            )
        if now - self._cpu_at >= _CPU_SECONDS:
            self._cpu_at = now
            self._last = msgspec.structs.replace(self._last, cpu_percent=cpu_percent())
        return self._last


def memory_percent() -> float:
    """Return the percentage of the machine's memory that is in use."""
    return float(psutil.virtual_memory().percent)


def memory_bytes() -> int:
    """Return the memory use of this process in bytes."""
    return int(psutil.Process().memory_info().rss)


def cpu_percent() -> float:
    """Return the processor use of the machine since the last call, in percent."""
    return float(psutil.cpu_percent())
