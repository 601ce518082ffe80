"""The rules about what attempts leave behind: C3 (records), C4 (follow-on jobs) and C5 (counts).

The handlers of a trial return the attempt they ran in, as `{"attempt": [queue, id, epoch]}`. So the checker knows whose
records to expect for a job that was copied, moved or merged from an offline checkout.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator

import msgspec

from longshore.conformance.history.events import JobSeen, Name, QueueSeen
from longshore.conformance.history.timeline import Attempted, QueueFacts, Timeline
from longshore.conformance.history.violation import Violation

_WORKER_PATHS = frozenset({"settler", "shutdown", "watchdog"})
_STATES = ("pending", "claimed", "completed", "failed", "cancelled")


class _Result(msgspec.Struct):
    attempt: Attempted | None = None


def records(found: Timeline, facts: QueueFacts, seen: QueueSeen, keepers: Container[str]) -> Iterator[Violation]:
    """C3: for each completed job, exactly the records that its accepted attempt emitted; for others, none.

    `keepers` are the queues that keep their records themselves. A job that was completed on the other side of one has
    all of its records or none.
    """
    if seen.records is None:
        return
    read: defaultdict[Name, list[str]] = defaultdict(list)
    for record in seen.records:
        read[record.name].append(record.data)
    completed = {job.name: job for job in seen.jobs if job.state == "completed"}
    for name in read:
        if name not in completed:
            yield Violation("C3", seen.queue, f"has {len(read[name])} records and is not a completed job", name)
    for name, job in completed.items():
        attempt = _attempt_of(facts.queue, job)
        # A reparse runs the handler again for a completed job, and its records replace the earlier ones.
        attempts = {attempt, (facts.queue, job.id, job.epoch)}
        emitted = [each for one in attempts for runs in found.records[one].values() for each in runs] or [[]]
        if attempt[0] != seen.queue and not read[name] and (attempt[0] in keepers or seen.queue in keepers):
            continue
        if sorted(read[name]) not in [sorted(each) for each in emitted]:
            text = f"the accepted attempt {attempt} emitted {emitted}, and {read[name]} is read"
            yield Violation("C3", seen.queue, text, name)


def _attempt_of(queue: str, job: JobSeen) -> Attempted:
    try:
        told = msgspec.json.decode(job.result or "null", type=_Result | None)
    except msgspec.MsgspecError:
        told = None
    return (queue, job.id, job.epoch) if told is None or told.attempt is None else told.attempt


def flush_order(found: Timeline, facts: QueueFacts) -> Iterator[Violation]:
    """C3: a worker settles no attempt as completed before the records of the attempt are durable."""
    if facts.rewinds:
        # A medium that was set back gives the same ids and epochs to other jobs.
        return
    for life in facts.lives.values():
        for each in life.sent:
            settlement, call = each.settlement, each.by
            if settlement.outcome != "completed" or call.called.path not in _WORKER_PATHS:
                continue
            attempt = facts.queue, life.id, settlement.epoch
            if attempt not in found.records or not any(map(any, found.records[attempt].values())):
                continue
            flushed = found.flushed.get((call.process, life.id, settlement.epoch))
            if flushed is None or flushed > call.place:
                text = f"epoch {settlement.epoch} was settled before its records were durable"
                yield Violation("C3", facts.queue, text, life.name)


def follow_ons(facts: QueueFacts, seen: QueueSeen) -> Iterator[Violation]:
    """C4: each follow-on job was named by an accepted settlement of its parent, and the run keeps its limits."""
    outside: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for job in seen.jobs:
        origins, run = facts.origins[job.name], job.name[0]
        (outside if any(each.parent is None for each in origins) else inside)[run] += 1
        if any(each.carried is not None for each in origins):
            continue
        parents = {each.parent for each in origins}
        parent = None if job.parent is None else (run, *job.parent)
        if origins and parent not in parents:
            text = f"its parent is {job.parent}, and no accepted attempt of that job named it"
            yield Violation("C4", seen.queue, text, job.name)
        limits = facts.limits.get(run)
        if limits is not None and limits.max_depth is not None and job.depth > limits.max_depth:
            yield Violation("C4", seen.queue, f"its depth is {job.depth}, and {limits.max_depth} is allowed", job.name)
    for run, limits in facts.limits.items():
        if limits.max_jobs is None:
            continue
        # A follow-on job may join before the last jobs come from outside. Those that were there first take their room.
        room = max(0, limits.max_jobs - _there_first(facts, run))
        if inside[run] > room:
            text = f"run {run} may have {limits.max_jobs} jobs, {outside[run]} came from outside, {inside[run]} did not"
            yield Violation("C4", seen.queue, text)


def _there_first(facts: QueueFacts, run: str) -> int:
    """Return how many jobs of the run were submitted from outside before its first claim."""
    claims = (given.by.began for life in facts.lives.values() if life.name[0] == run for given in life.given)
    first = min(claims, default=0)
    return sum(
        any(each.parent is None and each.by.ended is not None and each.by.ended < first for each in origins)
        for name, origins in facts.origins.items()
        if name[0] == run
    )


def counts(seen: QueueSeen) -> Iterator[Violation]:
    """C5: the statistics, the listing and the stored jobs have the same numbers."""
    listed = Counter(job.state for job in seen.jobs)
    for state in _STATES:
        told = seen.counts.get(state, 0)
        if told != listed[state]:
            yield Violation("C5", seen.queue, f"{told} jobs are counted as {state}, and {listed[state]} are listed")
        if seen.stored is not None and seen.stored.get(state, 0) != listed[state]:
            text = f"{seen.stored.get(state, 0)} jobs are stored as {state}, and {listed[state]} are listed"
            yield Violation("C5", seen.queue, text)
