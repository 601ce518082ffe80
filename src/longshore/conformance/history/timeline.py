"""The histories of a trial, sorted: calls with their answers, and per queue the facts about each job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from longshore.conformance.history.events import (
    Answered,
    AnyEvent,
    Called,
    Chosen,
    FaultSwitched,
    HandlerEntered,
    HandlerLeft,
    JobCarried,
    JobsMoved,
    LeaseGiven,
    LimitsSet,
    Name,
    ProcessEnded,
    ProcessStarted,
    ProcessStarved,
    QueueRewound,
    ReaderSaid,
    RecordGiven,
    RecordsFlushed,
    RunPaused,
    SettlementSent,
    WorkerNamed,
)
from longshore.conformance.history.history_file import ProcessHistory

Attempted = tuple[str, str, int]
"""An attempt: the queue, the job's id and the epoch."""


@dataclass(frozen=True)
class QueueCall:
    """A call with its answer."""

    process: str
    place: int
    """The position of the call in the history of its process."""
    answered_at: int | None
    called: Called
    answered: Answered | None

    @property
    def known(self) -> bool:
        """Whether an answer came that says what was done."""
        return self.answered is not None and not self.answered.error

    @property
    def possible(self) -> bool:
        """Whether the call may have been carried out."""
        return self.answered is None or not self.answered.refused

    @property
    def began(self) -> int:
        return self.called.moment

    @property
    def ended(self) -> int | None:
        """The moment of the answer. None without a known answer: the medium may carry the call out later."""
        return self.answered.moment if self.answered is not None and not self.answered.error else None

    def precedes(self, other: QueueCall) -> bool:
        """Return whether this call was answered before the other began, for certain."""
        if self.process == other.process and self.answered_at is not None and self.known:
            return self.answered_at < other.place
        return self.ended is not None and self.ended < other.began


@dataclass(frozen=True)
class Given:
    """A lease that a claim returned."""

    lease: LeaseGiven
    by: QueueCall


@dataclass(frozen=True)
class Sent:
    """A settlement and its answer; `accepted` is None if that is unknown."""

    settlement: SettlementSent
    by: QueueCall
    accepted: bool | None

    @property
    def possible(self) -> bool:
        """Whether it may have been accepted."""
        return self.accepted is not False and self.by.possible


@dataclass
class Life:
    """One job of a queue from its submission to its removal."""

    id: str
    name: Name
    given: list[Given] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)


@dataclass(frozen=True)
class Origin:
    """A call that brought a name into a queue, or may have."""

    by: QueueCall
    certain: bool
    parent: Name | None = None
    carried: JobCarried | None = None


@dataclass
class QueueFacts:
    """The facts about one queue, from the histories of all processes."""

    queue: str
    calls: list[QueueCall] = field(default_factory=list)
    lives: dict[tuple[str, Name], Life] = field(default_factory=dict)
    ids: defaultdict[Name, set[str]] = field(default_factory=lambda: defaultdict(set))
    known_ids: set[str] = field(default_factory=set)
    origins: defaultdict[Name, list[Origin]] = field(default_factory=lambda: defaultdict(list))
    changes: defaultdict[str, list[QueueCall]] = field(default_factory=lambda: defaultdict(list))
    rewinds: list[tuple[int, int]] = field(default_factory=list)
    moved: list[JobsMoved] = field(default_factory=list)
    limits: dict[str, LimitsSet] = field(default_factory=dict)
    pauses: list[RunPaused] = field(default_factory=list)
    said: list[ReaderSaid] = field(default_factory=list)
    ended: list[ProcessEnded] = field(default_factory=list)
    lost_claims: defaultdict[str, list[QueueCall]] = field(default_factory=lambda: defaultdict(list))
    """The claims of each holder that have no known answer."""

    def life(self, job_id: str, name: Name) -> Life:
        """Return the life of a job, as far as it is known."""
        key = (job_id, name)
        if key not in self.lives:
            self.lives[key] = Life(job_id, name)
            self.ids[name].add(job_id)
            self.known_ids.add(job_id)
        return self.lives[key]

    def generation(self, call: QueueCall) -> int | None:
        """Return how often the medium had been set back when the call was made; None if it was set back meanwhile."""
        before = sum(done <= call.began for _, done in self.rewinds)
        if before == len(self.rewinds):
            return before
        start = self.rewinds[before][0]
        return before if call.ended is not None and call.ended < start else None

    def claimed_unseen(self, sent: Sent) -> bool:
        """Return whether the holder may have claimed the job in a call without an answer, since the last rewind."""
        since = max((done for _, done in self.rewinds if done <= sent.by.began), default=0)
        return any(since <= call.began <= sent.by.began for call in self.lost_claims[sent.settlement.holder])

    def may_have(self, verb: str, job_id: str, name: Name) -> int:
        """Return how many calls of `retry`, `cancel`, `release` or `prune` may have concerned the job."""
        return sum(
            call.called.chosen is not None and call.called.chosen.may_select(job_id, name)
            for call in self.changes[verb]
        )

    def certain(self, name: Name, origin: Origin) -> bool:
        """Return whether the call brought the name into the queue, for certain.

        A medium that keeps the limits of runs may drop a follow-on job of an accepted settlement.
        """
        limited = origin.parent is not None and origin.by.called.keeps_limits and name[0] in self.limits
        return origin.certain and not limited

    def may_be_pruned(self, name: Name) -> int:
        """Return how many calls of `prune` may have removed a job of this name."""
        ids = self.ids[name] or {""}
        strangers = sum(
            call.called.chosen is not None
            and call.called.chosen.ids is not None
            and not self.known_ids.issuperset(call.called.chosen.ids)
            for call in self.changes["prune"]
        )
        return strangers + max(self.may_have("prune", job_id, name) for job_id in ids)

    def moved_to(self, run: str) -> list[str]:
        """Return the queues to which jobs of the run may have been moved."""
        return [move.to for move in self.moved if move.run == run]


@dataclass
class Timeline:
    """All facts of a trial."""

    queues: dict[str, QueueFacts] = field(default_factory=dict)
    records: defaultdict[Attempted, defaultdict[str, list[list[str]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """The records that each process emitted for an attempt: a list for each time that it ran the handler."""
    left: defaultdict[Attempted, set[str]] = field(default_factory=lambda: defaultdict(set))
    flushed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """For a process and an attempt (job id, epoch): the position of the first flush in its history."""
    process_of: dict[str, str] = field(default_factory=dict)
    """The process of each holder."""
    started: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, int] = field(default_factory=dict)
    """The moment of the last event of each process."""
    wanted: defaultdict[str, set[Chosen]] = field(default_factory=lambda: defaultdict(set))
    """The wants with which each process claimed."""
    victims: set[str] = field(default_factory=set)
    """Processes that were killed, stopped or starved, or ended with an error; "" if a fault concerned all of them."""

    def facts(self, queue: str) -> QueueFacts:
        """Return the facts about a queue."""
        if queue not in self.queues:
            self.queues[queue] = QueueFacts(queue)
        return self.queues[queue]


def timeline(histories: Iterable[ProcessHistory]) -> Timeline:
    """Return the facts in the histories. It takes time in proportion to their length."""
    found = Timeline()
    for history in histories:
        answers = {
            event.call: (place, event) for place, event in enumerate(history.events) if isinstance(event, Answered)
        }
        found.last_seen[history.process] = history.events[-1].moment if history.events else 0
        for place, event in enumerate(history.events):
            if isinstance(event, Called):
                answered_at, answered = answers.get(event.call, (None, None))
                _add_call(found, QueueCall(history.process, place, answered_at, event, answered))
                if event.verb == "claim" and event.chosen is not None:
                    found.wanted[history.process].add(event.chosen)
            else:
                _add_event(found, history.process, place, event)
    return found


def _add_event(found: Timeline, process: str, place: int, event: AnyEvent) -> None:
    match event:
        case ProcessStarted():
            found.started.setdefault(process, event.moment)
        case WorkerNamed():
            found.process_of[event.holder] = process
        case HandlerEntered():
            found.records[event.queue, event.id, event.epoch][process].append([])
        case RecordGiven():
            runs = found.records[event.queue, event.id, event.epoch][process]
            if not runs:
                runs.append([])
            runs[-1].append(event.data)
        case HandlerLeft():
            found.left[event.queue, event.id, event.epoch].add(event.how)
        case RecordsFlushed():
            for job_id, epoch in event.attempts:
                found.flushed.setdefault((process, job_id, epoch), place)
        case ProcessStarved():
            found.victims.add(process)
        case FaultSwitched():
            found.victims.add(event.process)
        case ProcessEnded():
            if event.code:
                found.victims.add(event.process)
            found.facts(event.queue).ended.append(event)
        case RunPaused():
            found.facts(event.queue).pauses.append(event)
        case QueueRewound():
            rewinds = found.facts(event.queue).rewinds
            if event.done:
                rewinds[-1] = (rewinds[-1][0], event.moment)
            else:
                rewinds.append((event.moment, 1 << 62))
        case LimitsSet():
            found.facts(event.queue).limits[event.run] = event
        case JobsMoved():
            found.facts(event.queue).moved.append(event)
        case ReaderSaid():
            found.facts(event.queue).said.append(event)
        case _:
            pass


def _add_call(found: Timeline, call: QueueCall) -> None:
    facts, called, answered = found.facts(call.called.queue), call.called, call.answered
    facts.calls.append(call)
    match called.verb:
        case "submit":
            _add_names(facts, call, called.names)
        case "take_over":
            for each in called.carried:
                facts.origins[each.name].append(Origin(call, call.known, carried=each))
        case "claim":
            if not call.known and call.possible:
                facts.lost_claims[called.holder].append(call)
            for lease in answered.leases if answered is not None else ():
                facts.life(lease.id, lease.name).given.append(Given(lease, call))
        case "settle":
            verdicts: Sequence[bool | None] = answered.accepted if answered is not None and call.known else ()
            for number, settlement in enumerate(called.settlements):
                accepted = verdicts[number] if verdicts else None
                sent = Sent(settlement, call, accepted)
                facts.life(settlement.id, settlement.name).sent.append(sent)
                if sent.possible and settlement.outcome == "completed":
                    for name in settlement.follow_ons:
                        facts.origins[name].append(Origin(call, accepted is True, parent=settlement.name))
        case "retry" | "cancel" | "release" | "prune":
            if call.possible:
                facts.changes[called.verb].append(call)
        case _:
            pass


def _add_names(facts: QueueFacts, call: QueueCall, names: Sequence[Name]) -> None:
    if call.possible:
        for name in Counter(names):
            facts.origins[name].append(Origin(call, call.known))
