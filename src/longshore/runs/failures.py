"""What went wrong in a run, sorted by what it was: a few lines instead of a thousand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from longshore.errors import Failure
from longshore.job import Job, State, payload_key
from longshore.queue import Queue, Selection, each_job
from longshore.url import mask_url

EXAMPLES = 3
SUBJECT, VALUE = 60, 24
"""Characters of a payload that are shown, and of each value in it."""
KEPT_GROUPS = 50
"""Past this many different failures, further ones are counted under their type alone, so that memory stays bounded."""


@dataclass
class FailureGroup:
    """Failures of one type and exception."""

    error_type: str
    exception: str
    count: int = 0
    examples: list[Job] = field(default_factory=list)


async def failure_groups(queue: Queue, run: str) -> list[FailureGroup]:
    """The failed jobs of a run, grouped; the most frequent first."""
    groups: dict[tuple[str, str], FailureGroup] = {}
    async for job in each_job(queue, Selection(run=run, states=frozenset({State.FAILED}))):
        error_type = job.failure.error_type if job.failure else "unknown"
        exception = short_name(job.failure.exception) if job.failure else ""
        if (error_type, exception) not in groups and len(groups) >= KEPT_GROUPS:
            exception = ""
        group = groups.setdefault((error_type, exception), FailureGroup(error_type, exception))
        group.count += 1
        if len(group.examples) < EXAMPLES:
            group.examples.append(job)
    return sorted(groups.values(), key=lambda group: -group.count)


def subject(job: Job) -> str:
    """What a job is about, for a person: its URL if it has one, else its key if somebody chose it, and its fields."""
    url = job.payload.get("url")
    if isinstance(url, str):
        return url
    chosen = [] if job.key == payload_key(job.payload) else [job.key]
    return _cut(" ".join([*chosen, *_fields(job)]) or "{}", SUBJECT)


def complaint(job: Job, failure: Failure) -> str:
    """What a failure says, without the URL that the job is about anyway: `answered 404 Not Found`."""
    about = mask_url(subject(job))
    for joint in (" ", ": "):
        if failure.message.startswith(about + joint):
            return failure.message[len(about + joint) :]
    return failure.message


def short_name(exception: str) -> str:
    """The name of an error without that of its module."""
    return exception.rpartition(".")[2]


def _fields(job: Job) -> Iterator[str]:
    for name, value in itertools.islice(job.payload.items(), SUBJECT):
        # Cut one by one, so that a long text does not hide what stands behind it.
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        short = _cut(" ".join(text.split()), VALUE)
        yield f'{name}="{short}"' if isinstance(value, str) else f"{name}={short}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
