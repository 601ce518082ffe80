"""The rules about what people are told: C6 (the end of a run) and C8 (readers, exit codes and pauses)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from longshore.conformance.history.events import Chosen, ProcessEnded, QueueSeen, ReaderSaid
from longshore.conformance.history.timeline import QueueCall, QueueFacts, Sent, Timeline
from longshore.conformance.history.violation import Violation

_NEVER = 1 << 62
ALL_COMPLETED, SOME_FAILED, SOME_CANCELLED = 0, 1, 3
"""The exit codes of `wait` for a run that has ended."""


def liveness(facts: QueueFacts, seen: QueueSeen) -> Iterator[Violation]:
    """C6: after the drain nothing remains, and no run was called finished while it was being submitted."""
    if seen.drained:
        for job in seen.jobs:
            if job.state in {"pending", "claimed"}:
                yield Violation("C6", seen.queue, f"is still {job.state} after all the time it needed", job.name)
    submits: defaultdict[tuple[str, str], list[QueueCall]] = defaultdict(list)
    for call in facts.calls:
        if call.called.verb == "submit" and call.called.names and call.known:
            submits[call.process, call.called.names[0][0]].append(call)
    for who, run, began, moment in _endings(facts):
        for (process, its), calls in submits.items():
            if its != run or calls[0].ended is None or calls[0].ended >= began:
                continue
            late = [call for call in calls if call.began > moment and call.answered and call.answered.new]
            if late:
                text = f"{who} said that run {run} has ended, while {process} was submitting it"
                yield Violation("C6", facts.queue, text)


def _endings(facts: QueueFacts) -> Iterator[tuple[str, str, int, int]]:
    for said in facts.said:
        if said.reader == "wait" and said.code in {ALL_COMPLETED, SOME_FAILED, SOME_CANCELLED}:
            yield "wait", said.run, said.began, said.moment


def statements(found: Timeline, facts: QueueFacts) -> Iterator[Violation]:
    """C8: counts lie between what had been answered before and what had begun by then; so do exit codes."""
    if facts.rewinds:
        return
    for said in facts.said:
        if facts.moved_to(said.run):
            continue
        if said.paused is not None:
            yield from _pause(facts, said)
        if said.counts is not None:
            yield from _counts(facts, said, said.counts)
        if said.reader == "wait" and said.code == ALL_COMPLETED:
            yield from _ended(facts, said.run, said.began, said.moment, "wait said that all jobs completed")
    for ended in facts.ended:
        yield from _worker_exit(found, facts, ended)


def _counts(facts: QueueFacts, said: ReaderSaid, counts: dict[str, int]) -> Iterator[Violation]:
    run = said.run
    names = [name for name in facts.origins if name[0] == run and not facts.may_be_pruned(name)]
    pruned = any(name[0] == run and facts.may_be_pruned(name) for name in facts.origins)
    least = sum(any(each.certain and _ended_before(each.by, said.began) for each in facts.origins[n]) for n in names)
    most = sum(any(each.by.began <= said.moment for each in facts.origins[name]) for name in names)
    total = sum(counts.values())
    if not pruned and not least <= total <= most:
        text = f"{said.reader} said that run {run} has {total} jobs, and it had between {least} and {most}"
        yield Violation("C8", facts.queue, text)
    before = now = 0
    for life in facts.lives.values():
        if life.name[0] != run:
            continue
        completed = [each for each in life.sent if each.settlement.outcome == "completed" and each.possible]
        before += any(each.accepted and _ended_before(each.by, said.began) for each in completed)
        now += any(each.by.began <= said.moment for each in completed)
    told = counts.get("completed", 0)
    carried = any(each.carried for name in names for each in facts.origins[name])
    if not pruned and not carried and not before <= told <= now:
        text = f"{said.reader} said that {told} jobs of run {run} are completed, and {before} to {now} were"
        yield Violation("C8", facts.queue, text)


def _pause(facts: QueueFacts, said: ReaderSaid) -> Iterator[Violation]:
    """A reader says that a run is paused if it was all the time, and not if it never was; a paused run has no end."""
    spans = _pauses(facts)[said.run]
    throughout = any(since <= said.began and said.moment < until for since, until in spans)
    if throughout and not said.paused:
        text = f"{said.reader} said that run {said.run} is not paused, and it was all the time"
        yield Violation("C8", facts.queue, text)
    if said.paused and not any(event.run == said.run for event in facts.pauses):
        yield Violation("C8", facts.queue, f"{said.reader} said that run {said.run} is paused, and nothing paused it")
    if said.paused and said.promised:
        yield Violation("C8", facts.queue, f"{said.reader} said when run {said.run} ends, although it is paused")


def _ended_before(call: QueueCall, moment: int) -> bool:
    return call.ended is not None and call.ended < moment


def _worker_exit(found: Timeline, facts: QueueFacts, ended: ProcessEnded) -> Iterator[Violation]:
    if ended.until_done and ended.code == 0 and not facts.moved_to(ended.until_done):
        text = f"{ended.process} ended because run {ended.until_done} was done"
        # Jobs that were submitted after its last sign of life may have come too late for it.
        alive = found.last_seen.get(ended.process, 0)
        wanted = found.wanted.get(ended.process, ())
        yield from _ended(facts, ended.until_done, alive, ended.moment, text, wanted)


def _ended(
    facts: QueueFacts, run: str, began: int, moment: int, text: str, wanted: Collection[Chosen] = ()
) -> Iterator[Violation]:
    """The jobs of the run that were known at `began` had ended by `moment`: none of them is given to a worker later.

    With `wanted`, only those that it may select: a worker leaves other kinds to others, and says so when it ends.
    """
    for life in facts.lives.values():
        job_id, name = life.id, life.name
        if name[0] != run or any(facts.may_have(verb, job_id, name) for verb in ("retry", "cancel", "prune")):
            continue
        if wanted and not any(chosen.may_select(job_id, name) for chosen in wanted):
            continue
        if not any(each.certain and _ended_before(each.by, began) for each in facts.origins[name]):
            continue
        later = [each for each in life.given if each.by.began > moment]
        done = [each for each in life.sent if _final(each) and each.by.began <= moment]
        if later and not done:
            yield Violation("C8", facts.queue, f"{text}, and it was given to a worker after that", name)


def _final(sent: Sent) -> bool:
    return sent.possible and (sent.settlement.outcome == "completed" or sent.settlement.last)


def _pauses(facts: QueueFacts) -> defaultdict[str, list[tuple[int, int]]]:
    """Return the moments from the answer to each pause to the beginning of the resume, by run."""
    spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in facts.pauses:
        if event.on:
            spans[event.run].append((event.moment, _NEVER))
        elif spans[event.run]:
            since, until = spans[event.run][-1]
            # A person who tries again resumes twice.
            spans[event.run][-1] = (since, min(until, event.moment))
    return spans


def pauses(found: Timeline, facts: QueueFacts) -> Iterator[Violation]:
    """C8: a process that started after a pause was answered gets no job of the run until the run is resumed."""
    spans = _pauses(facts)
    for life in facts.lives.values():
        for given in life.given:
            for since, until in spans[life.name[0]]:
                ended = given.by.ended
                # A medium that was set back may have forgotten the pause.
                if any(since <= done and start <= until for start, done in facts.rewinds):
                    continue
                if found.started.get(given.by.process, 0) >= since and ended is not None and ended < until:
                    text = f"the run was paused, and {given.by.process}, started later, was given the job"
                    yield Violation("C8", facts.queue, text, life.name)
