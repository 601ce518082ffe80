"""The history checker: a pure function from histories and final observations to broken rules.

It takes time in proportion to the number of events: each rule looks at each job, call and statement once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from longshore.conformance.history import content_rules, job_rules, statement_rules
from longshore.conformance.history.events import QueueSeen
from longshore.conformance.history.history_file import ProcessHistory
from longshore.conformance.history.timeline import timeline
from longshore.conformance.history.violation import RULES, Violation

__all__ = ["RULES", "Violation", "check"]


def check(histories: Iterable[ProcessHistory], observed: Iterable[QueueSeen]) -> list[Violation]:
    """Return every broken rule that the histories of a trial and its final observations show."""
    return list(_violations(histories, list(observed)))


def _violations(histories: Iterable[ProcessHistory], observed: list[QueueSeen]) -> Iterator[Violation]:
    found = timeline(histories)
    keepers = {seen.queue for seen in observed if seen.keeps_records}
    listed = {seen.queue: frozenset(job.name for job in seen.jobs) for seen in observed}
    for seen in observed:
        facts = found.facts(seen.queue)
        yield from job_rules.names(facts, seen, listed)
        yield from job_rules.submissions(facts)
        yield from job_rules.lives(facts, seen)
        yield from job_rules.charges(found, facts, seen)
        yield from content_rules.records(found, facts, seen, keepers)
        yield from content_rules.follow_ons(facts, seen)
        yield from content_rules.counts(seen)
        yield from statement_rules.liveness(facts, seen)
        yield from statement_rules.statements(found, facts)
        yield from statement_rules.pauses(found, facts)
    for facts in found.queues.values():
        yield from content_rules.flush_order(found, facts)
