"""Decide whether a fleet may start, and which worker of it does what.

`check_launch` runs the checks and reads the queue at the same time; it creates nothing. `CheckedLaunch.launch` then
returns the plan of the fleet, or raises what is wrong with the order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from longshore.errors import LongshoreError, NotFoundError, QueueUnavailableError
from longshore.extensions.find import find
from longshore.extensions.presence import PresentWorker, WorkerRegistry
from longshore.fleet.checks import CheckPlan, CheckVerdict, Finding
from longshore.fleet.checks.load_handlers import load_apart
from longshore.fleet.checks.run_checks import run_checks
from longshore.fleet.launch.ready_code import ReadyCode
from longshore.fleet.launch.worker_command import fleet_name
from longshore.fleet.partitions.assignment import assign
from longshore.fleet.partitions.assignment_table import AssignmentTable, listed_partitions, read_table
from longshore.fleet.partitions.start_plan import StartPlan, start_plan
from longshore.fleet.sizing.autoscale import QueueLoad, ScalingPolicy
from longshore.job import State
from longshore.queue import Count, Queue, Selection, totals
from longshore.settings import Settings, resolve
from longshore.url import mask_url

_SAMPLE = 200
"""Finished jobs whose duration is read."""
_PATIENCE = 20.0
"""Seconds that the queue has to answer."""

OpenQueue = Callable[[Settings], AbstractAsyncContextManager[Queue]]
"""Opens the queue of the settings without creating it."""


@dataclass(frozen=True)
class LaunchOptions:
    """The options of the command line."""

    file: Path
    given: Mapping[str, Any]
    """The settings among the options."""
    run: str | None
    partitions: str | None
    table: Path | None
    trial: bool
    until_done: bool
    needs_dotenv: bool
    """Whether this folder is meant to have a `.env`."""
    policy: ScalingPolicy | None = None
    """How the fleet sizes itself; None for a fleet of fixed size."""
    code: ReadyCode | None = None
    """The published code that `file` belongs to; None for a file of the user."""


@dataclass(frozen=True)
class Launch:
    """A fleet that may start."""

    options: LaunchOptions
    settings: Settings
    plan: StartPlan
    counts: tuple[Count, ...]
    """The counts of the queue before the start."""
    seconds: tuple[float, ...] = ()
    """How long some of the finished jobs took."""
    others: int = 0
    """How many workers of other fleets work on the same run."""

    @property
    def title(self) -> str:
        """The name of the work."""
        return f"Run {self.options.run}" if self.options.run else "Every run"

    @property
    def total(self) -> Count:
        """The counts, added up."""
        return totals(self.counts)

    @property
    def jobs_within_limits(self) -> int:
        """How many of the remaining jobs the workers may do before `max_work` ends them."""
        # A fleet that sizes itself replaces a worker that ended.
        if not self.settings.max_work or self.options.policy is not None:
            return self.total.remaining
        return min(self.total.remaining, self.settings.max_work * len(self.plan.numbers))

    @property
    def workers(self) -> int:
        """How many workers there will be; with autoscaling, as many as the jobs ask for now."""
        if self.options.policy is None:
            return len(self.plan.numbers)
        return self.options.policy.target(QueueLoad(self.total.pending, self.total.claimed))

    @property
    def helpers(self) -> int:
        """How many workers of other fleets take part in the same jobs.

        They work on all jobs of the run: not in a trial, and not on the part that the limits allow.
        """
        return self.others if self.jobs_within_limits == self.total.remaining and not self.plan.trial else 0


@dataclass(frozen=True)
class _QueueState:
    """The relevant contents of the queue."""

    counts: tuple[Count, ...] = ()
    seconds: tuple[float, ...] = ()
    present: tuple[PresentWorker, ...] = ()


@dataclass(frozen=True)
class CheckedLaunch:
    """An order whose checks have run."""

    options: LaunchOptions
    findings: Sequence[Finding]
    _only: tuple[str, ...] | None
    _table: AssignmentTable | None
    _handler_partitions: tuple[str, ...]
    _reading: asyncio.Future[_QueueState]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(finding.verdict is not CheckVerdict.FAIL for finding in self.findings)

    def launch(self) -> Launch:
        """Return the plan of the fleet. Raise what the queue raised, or `NotFoundError` for an unknown run."""
        state, options = self._reading.result(), self.options
        settings = resolve(options.given)
        if options.until_done and options.run is not None and not state.counts:
            raise NotFoundError(
                f"There is no run '{options.run}' in {mask_url(settings.queue)}. `longshore submit` starts one."
            )
        table = self._table
        named = self._handler_partitions if table is None else table.partitions
        known = {count.partition for count in state.counts} - {""} | set(named)
        size = settings.workers
        if table is not None and "workers" not in settings.sources:
            size = max(table.rows) + 1
        assigns = assign if table is None else table.assign
        plan_with = partial(start_plan, size, known, only=self._only, trial=options.trial, assigns=assigns)
        plan = plan_with()
        launch = Launch(options, settings, plan, tuple(plan.counts(state.counts)), state.seconds)
        return _among_others(launch, state.present, plan_with)


async def check_launch(options: LaunchOptions, open_queue: OpenQueue) -> CheckedLaunch:
    """Run every check, and read what the queue holds. `UsageError` if the options contradict one another."""
    only = None if options.partitions is None else listed_partitions(options.partitions)
    table = _table_or_none(options.table)
    reading = asyncio.ensure_future(_read_queue(options, open_queue))
    if table is not None:
        # The table must have every partition that has jobs. Without a table the checks need not wait for the queue.
        await asyncio.wait({reading})
    plan = CheckPlan(
        given=options.given,
        handler_file=options.file,
        table=options.table,
        at_work=tuple(sorted(_partitions_of(reading, only))),
        asked_for=only or (),
        needs_dotenv=options.needs_dotenv,
        python=None if options.code is None else options.code.python,
    )
    loading = asyncio.ensure_future(load_apart(plan))
    findings = await run_checks(plan, loading=loading)
    await asyncio.wait({reading})
    # Read here: if a check failed, nothing else asks for it, and the check has reported the same error.
    reading.exception()
    passed = all(finding.verdict is not CheckVerdict.FAIL for finding in findings)
    loaded = await loading if passed else None
    return CheckedLaunch(options, findings, only, table, () if loaded is None else tuple(loaded.partitions), reading)


def _among_others(launch: Launch, present: Sequence[PresentWorker], plan_with: Callable[..., StartPlan]) -> Launch:
    """Return the launch with the numbers and partitions that the workers of other fleets leave to it."""
    own, others, taken, apart = fleet_name(launch.settings), 0, set[int](), set[int]()
    partitions = {partition for share in launch.plan.shares.values() for partition in share}
    for each in present:
        info = each.info
        # Registered workers of this fleet are left from an earlier start: the new ones take over their numbers.
        if (info.fleet is not None and info.fleet.name == own) or info.working_on != launch.options.run:
            continue
        others += 1
        if info.membership is not None and info.membership.number is not None:
            elsewhere = info.partitions is not None and partitions.isdisjoint(info.partitions)
            (apart if elsewhere else taken).add(info.membership.number)
    return replace(launch, others=others, plan=plan_with(taken=taken, apart=apart))


def _table_or_none(path: Path | None) -> AssignmentTable | None:
    """Return the table; None without one, or if it cannot be read, which its check reports."""
    try:
        return None if path is None else read_table(path)
    except LongshoreError:
        return None


async def _read_queue(options: LaunchOptions, open_queue: OpenQueue) -> _QueueState:
    """Return what the queue holds; nothing if there is no queue yet. Raise what the queue raises."""
    done = Selection(run=options.run, states=frozenset({State.COMPLETED}))
    try:
        async with asyncio.timeout(_PATIENCE), open_queue(resolve(options.given)) as queue:
            registry = find(queue, WorkerRegistry)
            return _QueueState(
                tuple(await queue.stats(options.run)),
                tuple(job.seconds for job in await queue.jobs(done, limit=_SAMPLE) if job.seconds is not None),
                () if registry is None else tuple(await registry.present_workers()),
            )
    except NotFoundError:
        return _QueueState()
    except TimeoutError as error:
        raise QueueUnavailableError(
            f"The queue did not say within {_PATIENCE:g} s what it holds. See whether it is overloaded, and repeat."
        ) from error


def _partitions_of(reading: asyncio.Future[_QueueState], only: Sequence[str] | None) -> set[str]:
    """Return the partitions that have jobs, among those to work on; none if the queue has not answered."""
    if not reading.done() or reading.exception() is not None:
        return set()
    found = {count.partition for count in reading.result().counts} - {""}
    return found if only is None else found & set(only)
