"""The rules about single jobs: C1 (names), C2 (lives and epochs) and C7 (charged attempts)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from longshore.conformance.history.events import JobSeen, Name, PastAttempt, QueueSeen
from longshore.conformance.history.timeline import Given, Life, QueueFacts, Sent, Timeline
from longshore.conformance.history.violation import Violation


def names(facts: QueueFacts, seen: QueueSeen, listed: Mapping[str, frozenset[Name]]) -> Iterator[Violation]:
    """C1: each submitted name is one job at the end, and no job came from nowhere."""
    for name, number in Counter(job.name for job in seen.jobs).items():
        if number > 1:
            yield Violation("C1", seen.queue, f"is listed {number} times", name)
        if not facts.origins[name]:
            yield Violation("C1", seen.queue, "is a job that was never submitted", name)
    for job in seen.jobs:
        facts.ids[job.name].add(job.id)
    missing = [
        name
        for name, origins in list(facts.origins.items())
        if name not in listed[seen.queue]
        and any(facts.certain(name, each) and facts.generation(each.by) == len(facts.rewinds) for each in origins)
        and not facts.may_be_pruned(name)
    ]
    lost = [name for name in missing if not any(name in listed.get(to, ()) for to in facts.moved_to(name[0]))]
    if len(lost) > seen.rejected:
        for name in lost:
            yield Violation("C1", seen.queue, "was submitted and is gone; nothing pruned it or reported it", name)
    if not facts.rewinds:
        for name, ids in facts.ids.items():
            if len(ids) > 1 + facts.may_be_pruned(name) + len(facts.moved_to(name[0])):
                yield Violation("C1", seen.queue, f"was several jobs: {', '.join(sorted(ids))}", name)


def submissions(facts: QueueFacts) -> Iterator[Violation]:
    """C1: the answer to a submission counts new jobs and duplicates as they were."""
    if facts.rewinds:
        return
    for call in facts.calls:
        if call.called.verb != "submit" or not call.known or call.answered is None:
            continue
        distinct = frozenset(call.called.names)
        new, given = call.answered.new, len(call.called.names)
        if new + call.answered.duplicates != given:
            yield Violation("C1", facts.queue, f"submit of {given} jobs says {new} new, {call.answered.duplicates} not")
        there = sum(
            any(
                facts.certain(name, each) and each.by is not call and each.by.precedes(call)
                for each in facts.origins[name]
            )
            and not facts.may_be_pruned(name)
            and not facts.moved_to(name[0])
            for name in distinct
        )
        if new > len(distinct) - there:
            yield Violation("C1", facts.queue, f"submit says {new} new of {len(distinct)}, but {there} were there")
        unique = sum(all(each.by is call for each in facts.origins[name]) for name in distinct)
        if new < unique:
            yield Violation("C1", facts.queue, f"submit says {new} new, but only it ever named {unique} of the jobs")


def lives(facts: QueueFacts, seen: QueueSeen) -> Iterator[Violation]:
    """C2: within each generation of the medium, the claims and settlements of a job follow from each other."""
    final = {(job.id, job.name): job for job in seen.jobs}
    for key, life in facts.lives.items():
        job = final.get(key)
        for generation in range(len(facts.rewinds) + 1):
            last = generation == len(facts.rewinds)
            yield from _generation(facts, life, generation, job if last else None)
    if not facts.rewinds:
        for job in seen.jobs:
            yield from _epochs(facts, facts.life(job.id, job.name), job)


def _generation(facts: QueueFacts, life: Life, generation: int, job: JobSeen | None) -> Iterator[Violation]:
    given: defaultdict[int, list[Given]] = defaultdict(list)
    earlier: defaultdict[int, set[str]] = defaultdict(set)
    for claim in life.given:
        its = facts.generation(claim.by)
        if its == generation:
            given[claim.lease.epoch].append(claim)
        elif its is None or its < generation:
            earlier[claim.lease.epoch].add(claim.lease.holder)
    settled = [each for each in life.sent if facts.generation(each.by) == generation or each.by.ended is None]
    accepted = [each for each in settled if each.accepted]
    for epoch, claims in given.items():
        if len(claims) > 1:
            text = f"epoch {epoch} was given {len(claims)} times: to {', '.join(each.lease.holder for each in claims)}"
            yield Violation("C2", facts.queue, text, life.name)
    for epoch, number in Counter(each.settlement.epoch for each in accepted).items():
        if number > 1:
            yield Violation("C2", facts.queue, f"epoch {epoch} was settled {number} times", life.name)
    for each in accepted:
        epoch, holder = each.settlement.epoch, each.settlement.holder
        holders = {claim.lease.holder for claim in given[epoch]} or earlier[epoch]
        # The answer to its own claim may have been lost; it learns from a renewal what it holds.
        unseen = not given[epoch] and facts.claimed_unseen(each)
        if holders and holder not in holders and not unseen:
            text = f"epoch {epoch} belongs to {', '.join(holders)}, and a settlement of {holder} was accepted"
            yield Violation("C2", facts.queue, text, life.name)
        stale = [claim for claim in _later(given, epoch) if claim.by.precedes(each.by)]
        if stale:
            yield Violation("C2", facts.queue, f"epoch {epoch} was settled after {stale[0].lease.epoch}", life.name)
    yield from _after_the_end(facts, life, accepted, given)
    yield from _refusals(facts, life, settled, given, job)


def _later(given: Mapping[int, list[Given]], epoch: int) -> Iterator[Given]:
    for later, claims in given.items():
        if later > epoch:
            yield from claims


def _after_the_end(
    facts: QueueFacts, life: Life, accepted: list[Sent], given: Mapping[int, list[Given]]
) -> Iterator[Violation]:
    """A completed job is never claimed again, and a failed one only after a retry."""
    for each in accepted:
        outcome, epoch = each.settlement.outcome, each.settlement.epoch
        final = outcome == "completed" or (each.settlement.last and not facts.may_have("retry", life.id, life.name))
        if final and (claims := list(_later(given, epoch))):
            text = f"it was {outcome} for good at epoch {epoch} and given again at epoch {claims[0].lease.epoch}"
            yield Violation("C2", facts.queue, text, life.name)


def _refusals(
    facts: QueueFacts, life: Life, sent: list[Sent], given: Mapping[int, list[Given]], job: JobSeen | None
) -> Iterator[Violation]:
    """A settlement of the holder is refused only if the lease had ended."""
    if job is None:
        return
    for each in sent:
        settlement = each.settlement
        epoch = settlement.epoch
        if each.accepted is not False or not any(c.lease.holder == settlement.holder for c in given[epoch]):
            continue
        ended = (
            job.epoch > epoch
            or any(entry.epoch == epoch for entry in job.history)
            or facts.may_have("cancel", life.id, life.name)
            or facts.may_have("release", life.id, life.name)
            or any(other is not each and other.possible and other.settlement.epoch == epoch for other in sent)
        )
        if not ended:
            text = f"epoch {epoch} was refused to its holder {settlement.holder}, and nothing had ended its lease"
            yield Violation("C2", facts.queue, text, life.name)


def _epochs(facts: QueueFacts, life: Life, job: JobSeen) -> Iterator[Violation]:
    """C2: every epoch of a job ended for a reason, and its state is that of the last end."""
    carried = [each.carried for each in facts.origins[job.name] if each.carried is not None]
    first = max((each.epoch for each in carried), default=0)
    if first >= job.epoch and carried:
        return
    possible: defaultdict[int, list[Sent]] = defaultdict(list)
    for each in life.sent:
        if each.possible:
            possible[each.settlement.epoch].append(each)
    charged = {entry.epoch for entry in job.history}
    cancelled, retried, released = (facts.may_have(verb, job.id, job.name) for verb in ("cancel", "retry", "release"))
    for epoch in range(first + 1, job.epoch + 1):
        current = epoch == job.epoch
        if current and job.state == "claimed":
            continue
        outcomes = {each.settlement.outcome for each in possible[epoch]}
        if current and job.state == "completed":
            explained = "completed" in outcomes
        elif current and job.state == "cancelled":
            explained = bool(cancelled)
        else:
            taken = bool(released or (cancelled and retried))
            explained = bool(outcomes - {"completed"}) or epoch in charged or taken
        if not explained:
            ending = f"is {job.state}" if current else f"was given again at epoch {epoch + 1}"
            text = f"epoch {epoch} was never settled, reaped or cancelled, and the job {ending}"
            yield Violation("C2", facts.queue, text, life.name)
    if job.state == "completed" and possible[job.epoch]:
        results = {each.settlement.result for each in possible[job.epoch] if each.settlement.outcome == "completed"}
        if results and job.result not in results:
            yield Violation("C2", facts.queue, f"its result is not that of epoch {job.epoch}: {job.result}", life.name)


def charges(found: Timeline, facts: QueueFacts, seen: QueueSeen) -> Iterator[Violation]:
    """C7: each charged attempt was the job's own failure, or its worker had died."""
    for job in seen.jobs:
        origins = facts.origins[job.name]
        first = max((each.carried.epoch for each in origins if each.carried is not None), default=0)
        life = facts.life(job.id, job.name)
        for entry in job.history:
            if entry.epoch > first and not _charged_rightly(found, facts, life, entry):
                text = f"epoch {entry.epoch} of {entry.worker} was charged as {entry.error_type} without a cause"
                yield Violation("C7", seen.queue, text, job.name)
        untouched = not first and not facts.rewinds and not facts.may_have("retry", job.id, job.name)
        counted = len(job.history) + (job.state == "completed")
        if untouched and job.attempts != counted:
            text = f"{job.attempts} attempts were charged, and the history has {counted}"
            yield Violation("C7", seen.queue, text, job.name)


def _charged_rightly(found: Timeline, facts: QueueFacts, life: Life, entry: PastAttempt) -> bool:
    if found.left[facts.queue, life.id, entry.epoch] & {"raised", "overstayed", "unstorable"}:
        return True
    merged = any(each.settlement.epoch == entry.epoch and each.by.called.path == "merge" for each in life.sent)
    if merged:
        return True
    if entry.error_type != "crash":
        return False
    holders = {each.lease.holder for each in life.given if each.lease.epoch == entry.epoch}
    processes = {found.process_of.get(holder, "") for holder in holders}
    # A claim without an answer has no known holder: its process died, or the medium did not answer it.
    # A medium that was set back has the claims of workers again that had left long ago.
    return not holders or bool(facts.rewinds) or "" in found.victims or bool(processes & found.victims)
