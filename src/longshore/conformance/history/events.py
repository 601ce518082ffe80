"""The events of a history: the lines that one process writes, in its own order.

A call is two events: `Called` before it, `Answered` after it. A process that is killed between them leaves a call
without an answer: it may have been carried out or not.

Order between processes is never taken from their clocks. The conductor of a trial counts its own steps, and each event
has the number of the step it was written in (`moment`). An answer of moment 4 came before a call of moment 5.
"""

from __future__ import annotations

import msgspec

Name = tuple[str, str, str]
"""Run, kind and key of a job."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """The common part of all events."""

    moment: int = 0


class ProcessStarted(Event, frozen=True, tag="started"):
    """The first event of a process."""

    process: str
    role: str


class LeaseGiven(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lease in the answer to a claim."""

    id: str
    name: Name
    epoch: int
    holder: str
    """The incarnation of the worker."""


class SettlementSent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A settlement in a call of `settle`."""

    id: str
    name: Name
    epoch: int
    holder: str
    outcome: str
    """`completed`, `failed`, `snoozed` or `released`."""
    last: bool = False
    """A failure after which the job is not tried again."""
    follow_ons: tuple[Name, ...] = ()
    result: str = ""
    """The JSON of the result of a completed attempt."""


class JobCarried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job in a call of `take_over`."""

    name: Name
    state: str
    epoch: int = 0
    attempts: int = 0


class Chosen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a selection that does not depend on the state of a job."""

    run: str | None = None
    ids: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None

    def may_select(self, job_id: str, name: Name) -> bool:
        """Return whether the selection may contain the job, in some state."""
        return (
            (self.run is None or self.run == name[0])
            and (self.ids is None or job_id in self.ids)
            and (self.kinds is None or name[1] in self.kinds)
        )


class Called(Event, frozen=True, tag="called"):
    """A call of a queue that is about to be made."""

    call: int
    queue: str
    verb: str
    """The method: `submit`, `claim`, `settle`, `reap`, `retry`, `cancel`, `release`, `prune` or
    `take_over`."""
    path: str = ""
    """For `settle`: the part of the program that settles; see `history_file.settlement_path`."""
    holder: str = ""
    names: tuple[Name, ...] = ()
    settlements: tuple[SettlementSent, ...] = ()
    carried: tuple[JobCarried, ...] = ()
    chosen: Chosen | None = None
    """For `claim`: what the worker can take. For a change: what it concerns."""
    keeps_limits: bool = False
    """For `settle`: the medium applies the growth limits itself, so it may drop some of the named follow-on jobs."""


class Answered(Event, frozen=True, tag="answered"):
    """The answer to a call. With an `error`, it is unknown whether the call was carried out."""

    call: int
    error: str = ""
    refused: bool = False
    """The error is a `UsageError`: nothing was carried out."""
    new: int = 0
    duplicates: int = 0
    leases: tuple[LeaseGiven, ...] = ()
    accepted: tuple[bool, ...] = ()
    changed: int = 0


class HandlerEntered(Event, frozen=True, tag="entered"):
    """A handler begins an attempt. If the medium was set back, a process may run the same attempt twice."""

    queue: str
    id: str
    epoch: int


class RecordGiven(Event, frozen=True, tag="emitted"):
    """A handler is about to emit a record. `data` is its JSON with sorted keys."""

    queue: str
    id: str
    epoch: int
    data: str


class ProcessStarved(Event, frozen=True, tag="starved"):
    """The process got no processor time for long enough to miss a renewal, so it may have lost leases."""


class HandlerLeft(Event, frozen=True, tag="left"):
    """A handler is about to leave an attempt, in a way that it chose itself."""

    queue: str
    id: str
    epoch: int
    how: str
    """`returned`, `raised`, `overstayed` if it is about to exceed its timeout, or `unstorable` if it emitted a record
    that some sinks refuse."""


class RecordsFlushed(Event, frozen=True, tag="flushed"):
    """The records of these attempts (job id and epoch) are durable."""

    attempts: tuple[tuple[str, int], ...]


class WorkerNamed(Event, frozen=True, tag="worker"):
    """This process claims as this holder."""

    holder: str


class ProcessEnded(Event, frozen=True, tag="ended"):
    """The conductor saw a process end."""

    process: str
    code: int
    until_done: str = ""
    """The run that the process was to finish, if it was started with `--until-done`."""
    queue: str = ""


class FaultSwitched(Event, frozen=True, tag="fault"):
    """The conductor switched a fault on or off. `process` is its victim, if it has one."""

    fault: str
    on: bool
    process: str = ""


class RunPaused(Event, frozen=True, tag="paused"):
    """A pause was answered, or a resume is about to be called."""

    queue: str
    run: str
    on: bool


class QueueRewound(Event, frozen=True, tag="rewound"):
    """The medium is about to be set back to an earlier state (`done` false), or was."""

    queue: str
    done: bool


class LimitsSet(Event, frozen=True, tag="limits"):
    """The growth limits of a run, set before its first job."""

    queue: str
    run: str
    max_jobs: int | None = None
    max_depth: int | None = None


class JobsMoved(Event, frozen=True, tag="moved"):
    """A move of all jobs of a run to another queue is about to begin."""

    queue: str
    run: str
    to: str


class ReaderSaid(Event, frozen=True, tag="said"):
    """A command that only reads said something about a run. `began` is the moment before it was started."""

    queue: str
    run: str
    reader: str
    """`status`, `top` or `wait`."""
    began: int
    code: int = 0
    counts: dict[str, int] | None = None
    """Jobs by state, for `status` and `top`."""
    paused: bool | None = None
    """Whether the reader said that the run is paused; None if it says nothing about that."""
    promised: bool = False
    """Whether the reader said when the run ends."""


AnyEvent = (
    ProcessStarted
    | Called
    | Answered
    | HandlerEntered
    | RecordGiven
    | HandlerLeft
    | ProcessStarved
    | RecordsFlushed
    | WorkerNamed
    | ProcessEnded
    | FaultSwitched
    | RunPaused
    | QueueRewound
    | LimitsSet
    | JobsMoved
    | ReaderSaid
)


class PastAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a job's history in the final observation."""

    epoch: int
    error_type: str
    worker: str


class JobSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the final observation."""

    id: str
    name: Name
    state: str
    epoch: int = 0
    attempts: int = 0
    depth: int = 0
    parent: tuple[str, str] | None = None
    """Kind and key."""
    result: str = ""
    history: tuple[PastAttempt, ...] = ()


class RecordSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A record in the final observation."""

    name: Name
    epoch: int
    data: str


class QueueSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as a fresh handle shows it at the end of a trial, when nothing else uses it."""

    queue: str
    jobs: tuple[JobSeen, ...]
    counts: dict[str, int]
    """The totals of `stats` by state."""
    stored: dict[str, int] | None = None
    """Jobs by state, counted in the files or tables of the medium without its code; None if that was not done."""
    records: tuple[RecordSeen, ...] | None = None
    """The records of all runs; None if they were not read."""
    keeps_records: bool = False
    """Whether the queue keeps the records of its attempts itself: they do not follow jobs to other queues, nor do
    records come with jobs from there."""
    rejected: int = 0
    """Files that the medium reports as set aside."""
    drained: bool = False
    """Workers that can do everything had all the time they needed, so nothing may remain."""
