"""The failures of a run in groups: a few lines instead of a thousand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from longshore.errors import Failure, WorkerError
from longshore.job import Job, State, payload_key
from longshore.queue import Queue, Selection, each_job
from longshore.url import mask_url

EXAMPLES = 3
SUBJECT, VALUE = 60, 24
"""Largest number of characters shown of a payload, and of each value in it."""
KEPT_GROUPS = 50
"""Past this many different failures, further ones are counted under their type alone, so that memory stays bounded."""
_UNKNOWN = Failure(WorkerError.error_type, "the cause is not known")


@dataclass
class FailureGroup:
    """The failures that share one name."""

    name: tuple[str, ...]
    """The type, the exception without its module (with the HTTP status, if it has one), and perhaps more."""
    count: int = 0
    examples: list[Job] = field(default_factory=list)
    first: float | None = None
    """When the first of the jobs failed for good; None if none did."""
    last: float | None = None
    """When the last of them did."""

    @property
    def error_type(self) -> str:
        """The error type of the group."""
        return self.name[0]

    @property
    def exception(self) -> str:
        """The exception of the group; empty if there is none, or if the group holds failures past the bound."""
        return self.name[1].partition(":")[0]

    @property
    def label(self) -> str:
        """The group in words: `processing (StatusError: 404 Not Found)`."""
        return f"{self.error_type} ({self.name[1]})" if self.name[1] else self.error_type


class FailureGroups:
    """Counts the failures of jobs by name. Bounded: past `most` groups, further names lose their last part."""

    def __init__(self, most: int, examples: int, name: Callable[[Failure], tuple[str, ...]]) -> None:
        """Keep up to `examples` jobs of each group."""
        self._groups: dict[tuple[str, ...], FailureGroup] = {}
        self._most = most
        self._examples = examples
        self._name = name

    def add(self, job: Job) -> None:
        """Count the last failure of a job."""
        name = self._name(failure_of(job))
        if name not in self._groups and len(self._groups) >= self._most:
            name = (*name[:-1], "")
        group = self._groups.setdefault(name, FailureGroup(name))
        group.count += 1
        if job.settled_at is not None:
            group.first = job.settled_at if group.first is None else min(group.first, job.settled_at)
            group.last = job.settled_at if group.last is None else max(group.last, job.settled_at)
        if len(group.examples) < self._examples:
            group.examples.append(job)

    @property
    def groups(self) -> list[FailureGroup]:
        """All groups, in the order in which they were first seen."""
        return list(self._groups.values())


def failure_of(job: Job) -> Failure:
    """Return the last failure of a failed job; a placeholder if the job has none."""
    return job.failure or _UNKNOWN


async def failure_groups(queue: Queue, run: str) -> list[FailureGroup]:
    """Return the failed jobs of a run, grouped by type, exception and HTTP status; the largest group first."""
    groups = FailureGroups(KEPT_GROUPS, EXAMPLES, _cause)
    async for job in each_job(queue, Selection(run=run, states=frozenset({State.FAILED}))):
        groups.add(job)
    return sorted(groups.groups, key=lambda group: -group.count)


def _cause(failure: Failure) -> tuple[str, str]:
    return failure.error_type, failure.cause


def subject(job: Job) -> str:
    """Return a job's URL, or else its key (unless it is derived from the payload) and its fields, for people."""
    url = job.payload.get("url")
    if isinstance(url, str):
        return url
    chosen = [] if job.key == payload_key(job.payload) else [job.key]
    return _cut(" ".join([*chosen, *_fields(job)]) or "{}", SUBJECT)


def short_message(job: Job, failure: Failure) -> str:
    """Return the failure's message without the job's URL in front: `answered 404 Not Found`."""
    about = mask_url(subject(job))
    for separator in (" ", ": "):
        if failure.message.startswith(about + separator):
            return failure.message[len(about + separator) :]
    return failure.message


def _fields(job: Job) -> Iterator[str]:
    for name, value in itertools.islice(job.payload.items(), SUBJECT):
        # Shorten each value, so that a long one does not hide those behind it.
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        short = _cut(" ".join(text.split()), VALUE)
        yield f'{name}="{short}"' if isinstance(value, str) else f"{name}={short}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
