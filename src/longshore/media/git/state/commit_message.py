"""The messages of commits: who did what, for people who read them on a web page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from longshore.media.git.state.job_label import label_of
from longshore.media.git.state.operations import (
    Claim,
    Deregister,
    Operation,
    Reap,
    Register,
    Renew,
    Settle,
    Submit,
    SwapEntries,
    TakeOver,
)
from longshore.outcome import Completed, Failed, Snoozed
from longshore.queue import Reaped, Submitted
from longshore.system.printable import printable

_NAMED = 3
"""Jobs that a message names."""
_LONGEST_SUBJECT = 100
_LONGEST_NAME = 60


def commit_message(operations: Sequence[Operation[Any]], answers: Sequence[Any]) -> str:
    """Return the message of a commit of these operations, none of which was refused, and of their answers.

    It says everything on the first line if there is room, else below it.
    """
    found = [line for each, answer in zip(operations, answers, strict=True) for line in _lines(each, answer)]
    # A claim that found nothing may have written the heartbeat that was due.
    renewed = [f"renew by {_shown(each.want.worker.label)}" for each in operations if isinstance(each, Claim)]
    lines = list(dict.fromkeys(found or renewed)) or ["put the branch in order"]
    subject = "; ".join(lines)
    if len(subject) <= _LONGEST_SUBJECT or len(lines) == 1:
        return subject
    return "\n".join([f"{lines[0]}; {len(lines) - 1} more", "", *lines])


def _lines(operation: Operation[Any], answer: Any) -> Iterator[str]:
    """Yield what an operation did; nothing if it changed nothing, or was refused."""
    match operation, answer:
        case Claim(), [*leases] if leases:
            jobs = [lease.job for lease in leases]
            labels = [label_of(job.kind, job.key, job.payload) for job in jobs[: _NAMED + 1]]
            yield f"claim {_jobs(len(jobs))} by {_shown(operation.want.worker.label)}: {_listed(labels)}"
        case Settle(), [*settled]:
            yield from _settled(operation, settled)
        case Submit(), Submitted(added, duplicates) if added:
            records = [record for record, _ in operation.jobs[: _NAMED + 1]]
            labels = [label_of(record.kind, record.key, record.payload) for record in records]
            # With duplicates among them, these may not be the ones that were added.
            yield f"submit {_jobs(added)}" + ("" if duplicates else f": {_listed(labels)}")
        case TakeOver(), Submitted(added, _) if added:
            yield f"take over {_jobs(added)}"
        case Renew() | Register() | Deregister(), _:
            yield f"{operation.verb} by {_shown(operation.worker.label)}"
        case Reap(), Reaped(returned, failed):
            yield f"take back {_jobs(returned + failed)} of silent workers"
        case SwapEntries(), _:
            yield f"note {_shown(operation.namespace)}"
        case _, int(number) if number:
            yield f"{operation.verb} {_jobs(number)}"


def _settled(operation: Settle, settled: Sequence[bool]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for (settlement, outcome, _), accepted in zip(operation.settlements, settled, strict=True):
        if accepted:
            match outcome:
                case Completed():
                    verb = "complete"
                case Failed():
                    verb = "fail"
                case Snoozed():
                    verb = "postpone"
                case _:
                    verb = "give back"
            job, labels = settlement.lease.job, groups.setdefault((verb, settlement.lease.worker.label), [])
            labels.append(label_of(job.kind, job.key, job.payload) if len(labels) <= _NAMED else "")
    for (verb, worker), labels in groups.items():
        yield f"{verb} {_jobs(len(labels))} by {_shown(worker)}: {_listed(labels)}"


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def _listed(labels: Sequence[str]) -> str:
    return ", ".join([*labels[:_NAMED], *["…"][: len(labels) > _NAMED]])


def _shown(name: str) -> str:
    text = printable(name[:_LONGEST_NAME]).encode("utf-8", "replace").decode()
    return " ".join(text.split()) or "a worker"
