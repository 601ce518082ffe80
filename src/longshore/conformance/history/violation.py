"""The rules of the history checker, and a broken one."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.conformance.history.events import Name

RULES = {
    "C1": "every submitted name is one job, or was pruned, moved, or set aside and reported",
    "C2": "each life of a job has one accepted settlement, by its holder, and each epoch one end",
    "C3": "the records that are read are those that the accepted attempt emitted",
    "C4": "follow-on jobs come from accepted attempts, within the limits of the run",
    "C5": "counters, listing and stored jobs agree",
    "C6": "everything is done at the end, and `finished` is said only when nothing can come",
    "C7": "an attempt is charged only for a failure of the job or the death of its worker",
    "C8": "readers, exit codes and pauses tell the truth at the moment they tell it",
}


@dataclass(frozen=True)
class Violation:
    """A broken rule: which, where, and how the history shows it."""

    rule: str
    queue: str
    text: str
    name: Name | None = None

    def __str__(self) -> str:
        job = "" if self.name is None else f" {'/'.join(self.name)}"
        return f"{self.rule} {self.queue}{job}: {self.text}"
