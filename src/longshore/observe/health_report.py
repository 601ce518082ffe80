"""The health of a process and of the workers it answers for, as the endpoints and `longshore health` tell it."""

from __future__ import annotations

from importlib.metadata import version

import msgspec

from longshore.observe.health import HEALTHY, Vitals

SILENT_SECONDS = 20.0
"""A worker that has not reported for this long hangs or was stopped. It reports every second."""


class WorkerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one worker."""

    worker: str
    status: str
    """`healthy` or `unhealthy`."""
    detail: str = ""
    """All problems; empty if there are none."""
    ready: bool = True
    """Whether it can begin a job."""
    pid: int | None = None
    heartbeat_age_seconds: float | None = None
    """Seconds since its last report, or since it was first seen; None if it has no process."""
    uptime_seconds: float = 0.0
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    success_rate: float = 1.0
    average_seconds: float = 0.0
    consecutive_failures: int = 0
    memory_bytes: int = 0
    memory_percent: float = 0.0
    cpu_percent: float = 0.0
    waits_for: str = ""


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one process."""

    status: str
    """`healthy` or `unhealthy`."""
    detail: str = ""
    """All problems; empty if there are none."""
    process: str
    """`worker`, `fleet` or `server`."""
    version: str = msgspec.field(default_factory=lambda: version("longshore"))
    pid: int
    ready: bool = True
    """Whether it can do its work now."""
    workers: tuple[WorkerHealth, ...] = ()

    @property
    def healthy(self) -> bool:
        return self.status == HEALTHY


def worker_health(worker: str, pid: int | None, vitals: Vitals | None, age: float | None, trouble: str) -> WorkerHealth:
    """Return the health of a worker, with the `age` of its last report in seconds and the `trouble` that others see."""
    if vitals is None:
        detail = trouble or "it has not reported yet: it starts, or its queue does not answer"
        return WorkerHealth(
            worker=worker, status="unhealthy", detail=detail, ready=False, pid=pid, heartbeat_age_seconds=age
        )
    faults = [trouble] if trouble else []
    if age is not None and age > SILENT_SECONDS:
        faults.append(f"no sign of life for {age:.0f} s")
    silent = bool(faults)
    if vitals.verdict != HEALTHY:
        faults.append(vitals.verdict)
    return WorkerHealth(
        worker=worker,
        status="unhealthy" if faults else HEALTHY,
        detail="; ".join(faults),
        ready=not (silent or vitals.waits_for or vitals.queue_error or vitals.queue_silence),
        pid=pid,
        heartbeat_age_seconds=age,
        uptime_seconds=vitals.uptime,
        claimed=vitals.claimed,
        completed=vitals.completed,
        failed=vitals.failed,
        retried=vitals.retried,
        success_rate=vitals.success_rate,
        average_seconds=vitals.average_seconds,
        consecutive_failures=vitals.errors_in_a_row,
        memory_bytes=vitals.memory_bytes,
        memory_percent=vitals.memory_percent,
        cpu_percent=vitals.cpu_percent,
        waits_for=vitals.waits_for,
    )


def report_of(process: str, pid: int, workers: tuple[WorkerHealth, ...]) -> HealthReport:
    """Return the report of a process that is as healthy as its workers, and ready if one of them is."""
    sick = [each for each in workers if each.status != HEALTHY]
    detail = "; ".join(each.detail if process == "worker" else f"{each.worker}: {each.detail}" for each in sick[:5])
    more = f"; and {len(sick) - 5} more workers" if len(sick) > 5 else ""
    if not workers:
        detail = "no worker runs"
    return HealthReport(
        status="unhealthy" if detail else HEALTHY,
        detail=detail + more,
        process=process,
        pid=pid,
        ready=any(each.ready for each in workers),
        workers=workers,
    )
