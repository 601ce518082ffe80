"""Who is at work: going by the roll, and by who holds jobs. A worker that goes is remembered for a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from longshore.extensions.presence import PresentWorker
from longshore.job import Job
from longshore.runs.watch.active_workers import reported_number
from longshore.runs.watch.failures import subject
from longshore.url import mask_urls

FORGET = 300.0
"""Seconds after which a worker that is gone is shown no more."""
_LONGEST = 200


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, by its label."""

    label: str
    on_roll: bool
    """Whether it said that it is there. A worker that does not is seen when it holds jobs."""
    fleet: str = ""
    number: int | None = None
    """Its number in its fleet, or among those who share partitions."""
    partitions: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    """What else it says of itself, as `word value`."""
    held: int = 0
    """Jobs it holds, among those that were read."""
    busy: int | None = None
    """Attempts under way, and how many may be; None where it does not say."""
    slots: int | None = None
    job: str = ""
    """The oldest of the jobs it holds, for people; and its id."""
    job_id: str = ""
    unseen: float = 0.0
    """Seconds since it was last seen; 0 for one that is there."""


class Roster:
    """Keeps track of workers from look to look."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, WorkerRow]] = {}

    def note(self, now: float, present: Iterable[PresentWorker], claimed: Iterable[Job]) -> tuple[WorkerRow, ...]:
        """Who was seen at this (monotonic) time; the answer is everyone who was seen lately, by label."""
        for label, row in _seen(present, claimed).items():
            self._known[label] = (now, row)
        self._known = {label: (at, row) for label, (at, row) in self._known.items() if now - at < FORGET}
        return tuple(
            row if at == now else msgspec.structs.replace(row, unseen=now - at, held=0, busy=None, job="", job_id="")
            for _, (at, row) in sorted(self._known.items())
        )


def _seen(present: Iterable[PresentWorker], claimed: Iterable[Job]) -> dict[str, WorkerRow]:
    rows = {each.worker.label: _on_roll(each) for each in present}
    for job in claimed:
        if job.worker is None:
            continue
        row = rows.get(job.worker) or WorkerRow(label=job.worker, on_roll=False)
        if not row.held:
            row = msgspec.structs.replace(row, job=mask_urls(subject(job))[:_LONGEST], job_id=job.id)
        rows[job.worker] = msgspec.structs.replace(row, held=row.held + 1)
    return rows


def _on_roll(each: PresentWorker) -> WorkerRow:
    about = each.about
    fleet, membership = _mapping(about.get("fleet")), _mapping(about.get("membership"))
    number = fleet.get("number", membership.get("number"))
    partitions = membership.get("partitions", about.get("partitions"))
    known = {"fleet", "membership", "partitions", "busy", "of", "run"}
    return WorkerRow(
        label=each.worker.label,
        on_roll=True,
        fleet=str(fleet.get("name", "")),
        number=number if isinstance(number, int) else None,
        partitions=tuple(map(str, partitions)) if isinstance(partitions, list | tuple) else (),
        says=tuple(f"{word} {_said(value)}"[:_LONGEST] for word, value in about.items() if word not in known),
        busy=reported_number(each, "busy"),
        slots=reported_number(each, "of"),
    )


def _mapping(said: object) -> Mapping[str, Any]:
    return said if isinstance(said, Mapping) else {}


def _said(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
