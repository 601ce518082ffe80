"""Failures by kind: type, exception, and the message without the parts that differ from job to job."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from longshore.errors import Failure
from longshore.runs.watch.failures import FailureGroup, FailureGroups, failure_of

KINDS = 100
"""The most kinds with their own pattern; further failures are counted by type and exception only."""
_LONGEST = 120
_DIFFERS = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+"  # an address
    r"|'[^'\n]*'|\"[^\"\n]*\""  # something quoted
    r"|\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b"  # an id
    r"|\d+(?:[.,:]\d+)*",  # a number, a time
    re.IGNORECASE,
)
_MISSING_NAME = re.compile(r"'[^'\n\d]{1,60}'")
"""The whole message of a `KeyError`: a name that the code asked for, the same in every job."""
_FEWEST_LETTERS = 4


class FailureKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of failure: failures with the same type, exception and message pattern."""

    error_type: str
    exception: str
    """The exception's class without its module."""
    pattern: str
    """The message; parts that differ from job to job are `*`. Empty if there are too many kinds to distinguish."""
    error: str
    """The pattern that selects these failures on the queue: see `Selection.error`."""
    failed: int = 0
    """Jobs that failed finally with it."""
    retrying: int = 0
    """Jobs that wait for a retry after it; for a large queue, only among the jobs read."""
    example: str = ""
    """The id of such a job."""
    message: str = ""
    """The full message of the example."""
    first: float | None = None
    """When the first of the failed jobs failed for good; None if none did, or it is not known."""
    last: float | None = None
    """When the last of them did."""

    @property
    def name(self) -> tuple[str, str, str]:
        """The identity of this kind."""
        return self.error_type, self.exception, self.pattern


def kind_of(failure: Failure) -> FailureKind:
    """Return the kind of a failure."""
    pattern, error = _generalised(failure.message)
    if _MISSING_NAME.fullmatch(failure.message):
        pattern, error = failure.message, _literally(failure.message)
    elif sum(letter.isalpha() for letter in pattern) < _FEWEST_LETTERS:
        # Such a short pattern would select nearly all failures.
        error = _literally(failure.exception or failure.error_type)
    return FailureKind(error_type=failure.error_type, exception=failure.exception_name, pattern=pattern, error=error)


class FailureTally(FailureGroups):
    """The number of failed jobs by kind. Its size is limited, however many kinds there are."""

    def __init__(self) -> None:
        super().__init__(KINDS, 1, lambda failure: kind_of(failure).name)

    def counted(self) -> Iterable[tuple[FailureKind, int]]:
        """Return each kind with its count."""
        return [(_kind(group), group.count) for group in self.groups]


def _kind(group: FailureGroup) -> FailureKind:
    (job,) = group.examples
    failure = failure_of(job)
    kind = msgspec.structs.replace(
        kind_of(failure), example=job.id, message=failure.message, first=group.first, last=group.last
    )
    if kind.name == group.name:
        return kind
    return msgspec.structs.replace(kind, pattern="", error=_literally(failure.exception or failure.error_type))


def failure_kinds(failed: FailureTally, retrying: FailureTally) -> tuple[FailureKind, ...]:
    """Return all kinds with both counts, the kind with the most failed jobs first."""
    kinds = {kind.name: msgspec.structs.replace(kind, failed=number) for kind, number in failed.counted()}
    for kind, number in retrying.counted():
        kinds[kind.name] = msgspec.structs.replace(kinds.get(kind.name, kind), retrying=number)
    return tuple(sorted(kinds.values(), key=lambda kind: (-kind.failed, -kind.retrying, kind.name)))


def _generalised(message: str) -> tuple[str, str]:
    """Return the message without its variable parts, as text for people and as a shell pattern that matches it."""
    first, broken, _ = message.partition("\n")
    literals: list[str] = []
    end, left = 0, _LONGEST
    for found in _DIFFERS.finditer(first):
        literals.append(first[end : found.start()][:left])
        left -= found.start() - end
        end = found.end()
        if left <= 0:
            break
    # The text after the last literal is truncated, too, if it is too long.
    rest = first[end:] if left > 0 else ""
    literals.append(rest[:left] if rest else "")
    if broken or left <= 0 or len(rest) > left:
        literals.append("")
    return _joined(literals), _joined([_literally(literal) for literal in literals])


def _joined(literals: list[str]) -> str:
    return re.sub(r"(?<!\[)\*{2,}", "*", "*".join(literals))


def _literally(text: str) -> str:
    """Return the shell pattern that matches only this text."""
    return re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", text)
