"""A filter for jobs: the conditions that a queue selects by, and others that are checked on each job that was read."""

from __future__ import annotations

import msgspec

from longshore.job import Job
from longshore.queue import Selection
from longshore.runs.watch.failures import subject
from longshore.stored import check_texts

_MADE_KEY = 64
"""The length of a key that was derived from a payload."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a selection for which all other conditions hold, too."""

    selection: Selection = Selection()
    hosts: frozenset[str] | None = None
    text: str = ""
    """A part of the job: of its payload, key, names, worker or last failure, without regard to case."""

    def __post_init__(self) -> None:
        check_texts((self.text, *(self.hosts or ())), "The texts of a filter")

    @property
    def is_empty(self) -> bool:
        """Whether every job matches."""
        return self == JobFilter()

    @property
    def queue_suffices(self) -> bool:
        """Whether the queue selects exactly the jobs that match."""
        return self.hosts is None and not self.text

    @property
    def counters_suffice(self) -> bool:
        """Whether the counters of a queue know how many jobs match."""
        chosen = self.selection
        by_counters = chosen.ids is None and chosen.error is None and chosen.older_than is None
        return by_counters and self.queue_suffices

    def accepts(self, job: Job) -> bool:
        """Return whether a job of the selection matches."""
        return (self.hosts is None or job.host in self.hosts) and contains(job, self.text)


def contains(job: Job, text: str) -> bool:
    """Return whether a text that a person looks for is a part of the job."""
    if not text:
        return True
    lower = text.lower()
    failure = job.failure
    failed = (failure.error_type, failure.exception, failure.message) if failure else ()
    places = (job.id, job.run, job.kind, job.state, job.partition, job.host, job.worker or "", *failed, subject(job))
    if any(lower in place.lower() for place in places):
        return True
    # A derived key contains any short text by chance, so it is compared only from its beginning.
    by_key = job.key.startswith(text) if len(job.key) == _MADE_KEY else lower in job.key.lower()
    return by_key or lower in msgspec.json.encode(job.payload).decode().lower()
