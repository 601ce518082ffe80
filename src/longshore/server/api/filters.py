"""The filter of jobs, as lists and bulk actions take it."""

from __future__ import annotations

from longshore.media.http import wire
from longshore.runs.control.job_filter import JobFilter
from longshore.server.auth.access import Access


class FilterBody(wire.SelectionBody, frozen=True, kw_only=True):
    """The jobs for which every given condition holds."""

    hosts: frozenset[str] | None = None
    text: str = ""
    """A part of the job: of its payload, key, names, worker or last failure, without regard to case."""

    def filter(self, access: Access) -> JobFilter:
        """Return the filter, limited to the reach of a key. Raise `UsageError` for values out of bounds."""
        return JobFilter(selection=access.selection(self.selection()), hosts=self.hosts, text=self.text)

    @property
    def is_empty(self) -> bool:
        """Whether no condition was given."""
        return JobFilter(selection=self.selection(), hosts=self.hosts, text=self.text).is_empty
