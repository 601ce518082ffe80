"""The log lines of a worker. Their phrases are stable, because people search logs for them.

Each job has a line of its own up to twenty lines a second. Beyond that, lines are folded into counts once a second, so
that ten thousand jobs a second cost no more to log than ten. Failures are always named: in a flood, one line for each
sort of failure, with an example.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import structlog

from longshore.clock import Clock
from longshore.errors import Failure, QueueError
from longshore.job import Job
from longshore.lease import Lease
from longshore.observe.failure_fields import fields_of, short
from longshore.observe.health import Vitals
from longshore.observe.statistics import per_hour
from longshore.outcome import Failed, Settlement
from longshore.url import mask_url
from longshore.worker.config import WorkerConfig
from longshore.worker.loop.stop_conditions import MaxEmptyPolls, MaxIdle, MaxWork, Snapshot, spans
from longshore.worker.status.counters import WorkerReport

_LINES_A_SECOND = 20
_SORTS_SHOWN = 10
_LOG_AGAIN_SECONDS = 60.0
NAMES_SHOWN, _FIELDS_SHOWN, _LONGEST_NAME = 5, 3, 72
_DERIVED = re.compile("[0-9a-f]{64}")
"""A key that was made of a payload or of a URL."""
_FIRST_GAP, _LONGEST_GAP = 10.0, 300.0
"""Seconds between two lines about a queue that is out of reach: at first, and at most."""


class LogReporter:
    """Writes the log lines of one worker."""

    def __init__(self, config: WorkerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._log = structlog.get_logger()
        self._born = self._second = clock.monotonic()
        self._lines = 0
        self._flood = False
        self._claimed = 0
        self._completed = 0
        self._finished = 0
        self._lost = 0
        self._failures: dict[tuple[str, ...], _Fold] = {}
        self._outage: _Outage | None = None
        self._closed_hosts: frozenset[str] = frozenset()
        self._no_work_again = float("-inf")
        self._target = next((c.limit for c in config.stop if isinstance(c, MaxWork)), None)

    def initialized(self, kinds: Sequence[str]) -> None:
        config = self._config
        extra: dict[str, Any] = {"run": config.run} if config.run else {}
        if config.delay.high:
            extra["delay"] = f"{config.delay} s"
        if config.partitions:
            extra["partitions"] = ",".join(sorted(config.partitions))
        self._log.info(
            f"Worker {config.worker.label} initialized",
            queue=mask_url(config.queue_url),
            kinds=",".join(kinds),
            concurrency=config.concurrency,
            **extra,
        )

    def looking(self) -> None:
        self._log.info("Looking for work")

    def claimed(self, leases: Sequence[Lease]) -> None:
        if self._may_log(1):
            self._say_claimed(leases)
        else:
            self._claimed += len(leases)

    def completed(self, settlements: Sequence[Settlement], ended: int) -> None:
        """Log completed attempts. `ended` is how many attempts have ended, the last of these included."""
        self._finished += len(settlements)
        if not self._may_log(len(settlements)):
            self._completed += len(settlements)
            return
        for number, settlement in enumerate(settlements, ended - len(settlements) + 1):
            self._say_completed(settlement, number)

    def failed(self, settlement: Settlement, finished: int, *, again: bool) -> None:
        """Log a failed attempt. `finished` is how many jobs are finished, this one included if it is."""
        outcome = settlement.outcome
        if not isinstance(outcome, Failed):
            return
        self._finished += not again
        if not self._may_log(1):
            sort = _sort(settlement, outcome)
            fold = self._failures.setdefault(sort, _Fold(settlement.lease, outcome))
            fold.count += 1
            return
        plan: dict[str, Any] = {"next": f"retry in {outcome.retry_in.total_seconds():.1f} s"} if again else {}
        plan |= {"attempt": settlement.lease.job.attempt, "seconds": _rounded(settlement.seconds)}
        plan |= self._share(finished)
        self._say_failed(settlement, outcome.failure, plan, again=again)

    def lost_lease(self, lease: Lease, what: str) -> None:
        if self._may_log(1):
            self._log.warning("lost lease", **_named(lease), consequence=what)
        else:
            self._lost += 1

    def lost_race(self) -> None:
        if self._may_log(1):
            self._log.info("lost claim race")

    def reaped(self, returned: int, failed: int) -> None:
        self._log.info("Brought back jobs of workers that went silent", returned=returned, failed=failed)

    def no_work(self, snapshot: Snapshot, wait: float) -> None:
        parts = [f"poll {snapshot.empty_polls}", f"idle {spans(snapshot.idle)}"]
        for condition in self._config.stop:
            if isinstance(condition, MaxEmptyPolls):
                parts[0] = f"poll {snapshot.empty_polls} of {condition.limit}"
            elif isinstance(condition, MaxIdle):
                parts[1] = f"idle {spans(snapshot.idle, condition.limit)}"
            elif isinstance(condition, MaxWork):
                parts.append(f"job {snapshot.finished:,} of {condition.limit:,}")
        if snapshot.being_submitted:
            parts.append("still being submitted")
        if snapshot.remaining:
            parts.append(f"{snapshot.remaining:,} unfinished, later or with others")
        if snapshot.remaining or snapshot.being_submitted:
            # This is likely to last, and a line for every look would hide all others.
            now = self._clock.monotonic()
            if now < self._no_work_again:
                return
            self._no_work_again = now + _LOG_AGAIN_SECONDS
        self._say_no_work(f"No work available ({', '.join(parts)})", wait)

    def _say_no_work(self, sentence: str, wait: float) -> None:
        self._log.info(f"{sentence}; next look in {wait:.1f} s")

    def hosts_closed(self, hosts: frozenset[str]) -> None:
        """Log, when it begins, that jobs may be left only of hosts that take no requests now."""
        if hosts and not self._closed_hosts:
            names = ", ".join(sorted(hosts)[:3]) + (f" and {len(hosts) - 3:,} more" if len(hosts) > 3 else "")
            self._log.info(f"No work except for hosts that take no requests now: {names} (see `longshore hosts`)")
        self._closed_hosts = hosts

    def proxies_wait(self, change: str) -> None:
        """Log that requests wait for a proxy, or go on."""
        self._log.warning(f"Proxies: {change}")

    def unavailable(self, doing: str, error: QueueError, wait: float) -> None:
        """Log that the queue is out of reach: each cause in full once, then short lines at growing intervals."""
        now, cause = self._clock.monotonic(), short(str(error))
        outage = self._outage = self._outage or _Outage(now)
        if now < outage.next_line:
            return
        since = f"for {spans(timedelta(seconds=now - outage.began))} now" if outage.causes else f"while {doing}"
        full = {} if cause in outage.causes else {"error": cause}
        outage.logged(now, cause)
        self._log.warning(f"Queue unavailable {since}; next try in {wait:.1f} s", **full)

    def available(self) -> None:
        """Log that the queue answers again, if it was out of reach."""
        if self._outage is not None:
            lasted = timedelta(seconds=self._clock.monotonic() - self._outage.began)
            self._outage = None
            self._log.info(f"The queue answers again, after {spans(lasted)}")

    def paused(self, reason: str) -> None:
        self._log.warning(f"PAUSED: {reason}. Nothing new begins; work goes on by itself once this is fixed")

    def resumed(self) -> None:
        self._log.info("RESUMED: jobs may begin again")

    def may_sleep(self) -> None:
        # Most servers offer no way, and never sleep. `longshore doctor` tells it to those who want to know.
        self._log.debug("The machine may go to sleep: this system offers no way to prevent it")

    def progress(self, vitals: Vitals, under_way: int, unwritten: int, remaining: int | None) -> None:
        """Log the progress. `unwritten` outcomes wait to be written. `remaining` jobs of its run (without one, of all
        runs) are unfinished; None if that is not known."""
        known: dict[str, Any] = {"retried": vitals.retried} if vitals.retried else {}
        known |= {"unwritten": unwritten} if unwritten else {}
        known |= {} if remaining is None else {"remaining": remaining}
        self._log.info(
            "Progress",
            completed=vitals.completed,
            failed=vitals.failed,
            under_way=under_way,
            **known,
            jobs_per_hour=round(per_hour(vitals.completed + vitals.failed, vitals.uptime)),
            average_seconds=round(vitals.average_seconds, 3),
            memory_mb=vitals.memory_bytes >> 20,
            health=vitals.verdict,
            **self._share(vitals.completed + vitals.failed),
        )

    def stopping(self, reason: str) -> None:
        self.flush()
        self._log.info(f"STOPPING: {reason}")

    def stopping_in_failure(self, reason: str) -> None:
        """Log, as an error, that the worker stops because it cannot go on."""
        self.flush()
        self._log.error(f"STOPPING: {reason}")

    def failed_while_stopping(self, reason: str) -> None:
        """Log an error that came while the worker was stopping for another reason."""
        self._log.error(f"The worker cannot shut down cleanly: {reason}")

    def hint(self, text: str) -> None:
        self._log.info(text)

    def unwritten(self, count: int, lease: timedelta) -> None:
        self._log.error(
            f"{count:,} outcomes could not be written; their jobs come back by themselves within"
            f" {lease.total_seconds():.0f} s and are tried again"
        )

    def final(self, report: WorkerReport) -> None:
        self.flush()
        self._log.info(f"Final statistics: {report.summary}")

    def flush(self) -> None:
        """Log what was folded since the last call."""
        now = self._clock.monotonic()
        seconds = max(now - self._second, 0.001)
        self._flood = self._lines > _LINES_A_SECOND
        self._second, self._lines = now, 0
        if self._completed or self._claimed:
            rate = f"{self._completed / seconds:,.0f}/s"
            so_far = {"done": self._finished, "jobs_per_hour": round(per_hour(self._finished, now - self._born))}
            self._log.info("Completed work", jobs=self._completed, claimed=self._claimed, rate=rate, **so_far)
            self._completed = self._claimed = 0
        if self._lost:
            self._log.warning("lost lease", jobs=self._lost)
            self._lost = 0
        if self._failures:
            folds = sorted(self._failures.values(), key=lambda fold: -fold.count)
            self._failures = {}
            for fold in folds[:_SORTS_SHOWN]:
                self._log.warning(
                    "Failed work", jobs=fold.count, **fields_of(fold.outcome.failure), example=fold.lease.job.id
                )
            if rest := folds[_SORTS_SHOWN:]:
                jobs = sum(fold.count for fold in rest)
                self._log.warning("Failed work", jobs=jobs, error=f"{len(rest)} other sorts of failure")

    def _say_claimed(self, leases: Sequence[Lease]) -> None:
        if len(leases) == 1:
            self._log.info("Claimed work", **_named(leases[0]))
        else:
            self._log.info("Claimed work", jobs=len(leases), names=names_of(leases))

    def _say_completed(self, settlement: Settlement, number: int) -> None:
        fields = {**_named(settlement.lease), "seconds": _rounded(settlement.seconds), **self._share(number)}
        self._log.info("Completed work", **fields)

    def _say_failed(self, settlement: Settlement, failure: Failure, plan: dict[str, Any], *, again: bool) -> None:
        write = self._log.warning if again else self._log.error
        write("Failed work", **_named(settlement.lease), **fields_of(failure), **plan)

    def _share(self, ended: int) -> dict[str, str]:
        return {"progress": f"{ended:,} of {self._target:,}"} if self._target else {}

    def _may_log(self, lines: int) -> bool:
        if self._clock.monotonic() - self._second >= 1.0:
            self.flush()
        self._lines += lines
        return not self._flood and self._lines <= _LINES_A_SECOND


class _Fold:
    """The failures of one sort within a second: their number, and the first of them."""

    __slots__ = ("count", "lease", "outcome")

    def __init__(self, lease: Lease, outcome: Failed) -> None:
        self.lease = lease
        self.outcome = outcome
        self.count = 0


class _Outage:
    """One outage of the queue: which causes were logged, and when the next line is due."""

    __slots__ = ("_gap", "began", "causes", "next_line")

    def __init__(self, now: float) -> None:
        self.began = self.next_line = now
        self.causes: set[str] = set()
        self._gap = _FIRST_GAP

    def logged(self, now: float, cause: str) -> None:
        """Note that a line with this cause was logged."""
        self.causes.add(cause)
        self.next_line = now + self._gap
        self._gap = min(2 * self._gap, _LONGEST_GAP)


def name_of(job: Job) -> str:
    """Return the name of a job for people: its URL, its key, or, if the key is derived, its first fields."""
    url = job.payload.get("url")
    if isinstance(url, str):
        name = url
    elif not _DERIVED.fullmatch(job.key):
        name = job.key
    else:
        fields = [f"{name}={value}" for name, value in job.payload.items() if isinstance(value, str | int | float)]
        name = " ".join([f"job {job.id}", *fields[:_FIELDS_SHOWN]])
    # The beginnings of URLs are alike; both ends tell them apart.
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


def names_of(leases: Sequence[Lease]) -> str:
    """Return the names of the jobs of a claim; of many, the first."""
    more = f" and {len(leases) - NAMES_SHOWN:,} more" if len(leases) > NAMES_SHOWN else ""
    return ", ".join(name_of(lease.job) for lease in leases[:NAMES_SHOWN]) + more


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _named(lease: Lease) -> dict[str, Any]:
    job = lease.job
    url = job.payload.get("url")
    name = {"url": url} if isinstance(url, str) else {"key": job.key[:12]}
    return {"job_id": job.id, "kind": job.kind, **name}


def _sort(settlement: Settlement, outcome: Failed) -> tuple[str, ...]:
    failure = outcome.failure
    # Numbers and URLs differ from job to job; the rest of the message identifies the sort of failure.
    text = re.sub(r"\S+://\S+|\d+", "#", failure.message[:200])
    return settlement.lease.job.kind, failure.error_type, failure.exception, text
