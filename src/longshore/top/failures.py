"""What went wrong, by kind: type, exception, and the message with what differs from job to job left out."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from longshore.errors import Failure
from longshore.runs.watch.failures import FailureGroup, FailureGroups, failure_of

KINDS = 100
"""Past this many, further ones are counted under their type and exception alone."""
_LONGEST = 120
_DIFFERS = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+"  # an address
    r"|'[^'\n]*'|\"[^\"\n]*\""  # something quoted
    r"|\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b"  # an id
    r"|\d+(?:[.,:]\d+)*",  # a number, a time
    re.IGNORECASE,
)
_FEWEST_LETTERS = 4


class FailureKind(msgspec.Struct, frozen=True, kw_only=True):
    """Failures that are alike."""

    error_type: str
    exception: str
    """The exception's class without its module."""
    pattern: str
    """The message; what differs from job to job is `*`. Empty where kinds are too many to be told apart by it."""
    error: str
    """What selects these failures on the queue: see `Selection.error`."""
    failed: int = 0
    """Jobs that failed for good of it."""
    retrying: int = 0
    """Jobs that wait for another attempt after it; of a large queue, among those read."""
    example: str = ""
    """The id of such a job."""
    message: str = ""
    """What it failed of, in full."""

    @property
    def name(self) -> tuple[str, str, str]:
        """What tells it from other kinds."""
        return self.error_type, self.exception, self.pattern


def kind_of(failure: Failure) -> FailureKind:
    """The kind that a failure is of."""
    pattern, error = _generalised(failure.message)
    if sum(letter.isalpha() for letter in pattern) < _FEWEST_LETTERS:
        # As a pattern it would select nearly everything.
        error = _literally(failure.exception or failure.error_type)
    return FailureKind(error_type=failure.error_type, exception=failure.exception_name, pattern=pattern, error=error)


class FailureTally(FailureGroups):
    """Counts the failures of jobs by kind. Bounded, however different they are."""

    def __init__(self) -> None:
        super().__init__(KINDS, 1, lambda failure: kind_of(failure).name)

    def counted(self) -> Iterable[tuple[FailureKind, int]]:
        """Each kind, and how many."""
        return [(_kind(group), group.count) for group in self.groups]


def _kind(group: FailureGroup) -> FailureKind:
    (job,) = group.examples
    failure = failure_of(job)
    kind = msgspec.structs.replace(kind_of(failure), example=job.id, message=failure.message)
    if kind.name == group.name:
        return kind
    return msgspec.structs.replace(kind, pattern="", error=_literally(failure.exception or failure.error_type))


def failure_kinds(failed: FailureTally, retrying: FailureTally) -> tuple[FailureKind, ...]:
    """Both together, what costs most jobs first."""
    kinds = {kind.name: msgspec.structs.replace(kind, failed=number) for kind, number in failed.counted()}
    for kind, number in retrying.counted():
        kinds[kind.name] = msgspec.structs.replace(kinds.get(kind.name, kind), retrying=number)
    return tuple(sorted(kinds.values(), key=lambda kind: (-kind.failed, -kind.retrying, kind.name)))


def _generalised(message: str) -> tuple[str, str]:
    """The message without what differs, as people read it and as a shell pattern that the message matches."""
    first, broken, _ = message.partition("\n")
    literals: list[str] = []
    end, room = 0, _LONGEST
    for found in _DIFFERS.finditer(first):
        literals.append(first[end : found.start()][:room])
        room -= found.start() - end
        end = found.end()
        if room <= 0:
            break
    # What follows the last literal is left out too, where there is more of it than there is room for.
    rest = first[end:] if room > 0 else ""
    literals.append(rest[:room] if rest else "")
    if broken or room <= 0 or len(rest) > room:
        literals.append("")
    return _joined(literals), _joined([_literally(literal) for literal in literals])


def _joined(literals: list[str]) -> str:
    return re.sub(r"(?<!\[)\*{2,}", "*", "*".join(literals))


def _literally(text: str) -> str:
    """The shell pattern that only this text matches."""
    return re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", text)
