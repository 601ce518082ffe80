"""The active workers: the registered ones, and those that hold jobs. A worker that is gone stays listed for a time."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from longshore.extensions.presence import FleetInfo, MembershipInfo, PresentWorker
from longshore.job import Job
from longshore.runs.watch.failures import subject
from longshore.url import mask_urls

FORGET = 300.0
"""Seconds after which a worker that is gone is no longer shown."""
_LONGEST = 200


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, by its label."""

    label: str
    registered: bool
    """Whether it is registered as present. Other workers are listed while they hold jobs."""
    fleet: str = ""
    number: int | None = None
    """Its number in its fleet, or among the workers that share partitions."""
    partitions: tuple[str, ...] = ()
    machine: str = ""
    kinds: tuple[str, ...] | None = None
    """The kinds of jobs it takes; None if it does not say."""
    details: tuple[str, ...] = ()
    """The other fields of its description, as `name value`."""
    held: int = 0
    """Jobs it holds, among those that were read."""
    busy: int | None = None
    """The number of running attempts; None if it does not report that."""
    slots: int | None = None
    """The most attempts that may run at once; None if it does not report that."""
    job: str = ""
    """The subject of the oldest job it holds, for people."""
    job_id: str = ""
    """The id of that job."""
    unseen: float = 0.0
    """Seconds since it was last seen; 0 if it is present."""


class SeenWorkers:
    """The workers seen recently, updated by each reading."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, WorkerRow]] = {}

    def note(self, now: float, present: Iterable[PresentWorker], claimed: Iterable[Job]) -> tuple[WorkerRow, ...]:
        """Record the workers seen at `now` (monotonic); return all workers seen recently, ordered by label."""
        for label, row in _seen(present, claimed).items():
            self._known[label] = (now, row)
        self._known = {label: (at, row) for label, (at, row) in self._known.items() if now - at < FORGET}
        return tuple(
            row if at == now else msgspec.structs.replace(row, unseen=now - at, held=0, busy=None, job="", job_id="")
            for _, (at, row) in sorted(self._known.items())
        )


def _seen(present: Iterable[PresentWorker], claimed: Iterable[Job]) -> dict[str, WorkerRow]:
    rows = {each.worker.label: _registered(each) for each in present}
    for job in claimed:
        if job.worker is None:
            continue
        row = rows.get(job.worker) or WorkerRow(label=job.worker, registered=False)
        if not row.held:
            row = msgspec.structs.replace(row, job=mask_urls(subject(job))[:_LONGEST], job_id=job.id)
        rows[job.worker] = msgspec.structs.replace(row, held=row.held + 1)
    return rows


def _registered(each: PresentWorker) -> WorkerRow:
    info = each.info
    fleet, membership = info.fleet or FleetInfo(), info.membership or MembershipInfo(partitions=info.partitions or ())
    details: tuple[str, ...] = () if info.machine is None else (f"machine {info.machine}",)
    if info.kinds is not None:
        details += (f"kinds {msgspec.json.encode(info.kinds).decode()}",)
    return WorkerRow(
        label=each.worker.label,
        registered=True,
        fleet=fleet.name,
        number=membership.number if fleet.number is None else fleet.number,
        partitions=membership.partitions,
        machine=info.machine or "",
        kinds=info.kinds,
        details=tuple(text[:_LONGEST] for text in details),
        busy=info.busy,
        slots=info.slots,
    )
