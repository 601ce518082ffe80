"""Take from the settings how one worker works: for the command `longshore work` and the function `longshore.work`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from longshore.extensions.presence import WorkerInfo
from longshore.settings import Settings
from longshore.system.machine import machine_name
from longshore.worker import MaxEmptyPolls, MaxIdle, MaxWork, RunFinished, StopCondition

_KINDS_LENGTH = 2_000
"""The most characters of the names of kinds that a worker writes to the worker registry."""


def stop_conditions_of(settings: Settings, run: str | None, *, until_done: bool) -> tuple[StopCondition, ...]:
    """Return the stop conditions of the settings; with `until_done` also the end of the run, or of the queue."""
    conditions: list[StopCondition] = []
    if settings.max_work:
        conditions.append(MaxWork(settings.max_work))
    if settings.max_empty_polls:
        conditions.append(MaxEmptyPolls(settings.max_empty_polls))
    if settings.max_idle_hours:
        conditions.append(MaxIdle(timedelta(hours=settings.max_idle_hours)))
    if until_done:
        conditions.append(RunFinished(run))
    return tuple(conditions)


def worker_info(settings: Settings, kinds: Sequence[str]) -> WorkerInfo:
    """Return what the worker publishes about itself while it is alive."""
    published = tuple(kinds) if sum(map(len, kinds)) <= _KINDS_LENGTH else None
    pause = settings.delay.mean or None
    return WorkerInfo(machine=machine_name(), slots=settings.concurrency, pause=pause, kinds=published)
