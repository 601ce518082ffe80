"""The list of jobs: filters that live in the address, pages by cursor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from longshore.errors import UsageError
from longshore.job import Job, State
from longshore.queue import Queue
from longshore.runs.control.job_filter import JobFilter
from longshore.server.api.filters import FilterBody
from longshore.server.auth.access import Access
from longshore.server.pages.addresses import address, run_of
from longshore.top.find_jobs import JobRow, row_of

SHOWN = 50
_READ = 20_000
"""The most jobs that are read for one page; then the page is shown, and the next one goes on from there."""
_PAGE = 500


class JobConditions(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of a list of jobs, as the address has it. Empty is everything."""

    run: str = ""
    state: str = ""
    kind: str = ""
    partition: str = ""
    host: str = ""
    error: str = ""
    q: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> JobConditions:
        """Return the conditions in the parameters of an address."""
        return cls(**{name: query.get(name, "").strip() for name in cls.__struct_fields__})

    @property
    def given(self) -> dict[str, str]:
        """The conditions that are not empty."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}

    def body(self, ids: Iterable[str] = ()) -> FilterBody:
        """Return the filter. Raise `UsageError` if the state is none. `ids` limits it to single jobs."""
        if self.state and self.state not in list(State):
            raise UsageError(f"A job is {', '.join(State)}, and not '{self.state[:40]}'.")
        chosen = frozenset(ids)
        return FilterBody(
            run=run_of(self.run) if self.run else None,
            states=frozenset({State(self.state)}) if self.state else None,
            kinds=frozenset({self.kind}) if self.kind else None,
            partitions=frozenset({self.partition}) if self.partition else None,
            error=self.error or None,
            hosts=frozenset({self.host}) if self.host else None,
            text=self.q,
            ids=chosen or None,
        )

    def address(self, **more: object) -> str:
        """Return the address of this list."""
        return address("/jobs", **self.given, **more)


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list of jobs."""

    rows: list[JobRow]
    next: str
    """The id to continue after; empty at the end."""
    searched: int
    """Jobs that were read to find these."""
    cut: bool = False
    """Whether reading stopped before the page was full, because few of the jobs match."""


async def find_page(queue: Queue, wanted: JobFilter, after: str) -> JobPage:
    """Return the next page of matching jobs, oldest first. It reads a bounded number of jobs."""
    rows: list[JobRow] = []
    read = 0
    # Every job of the selection matches, unless there is a condition that the queue cannot check.
    limit = SHOWN + 1 if wanted.hosts is None and not wanted.text else _PAGE
    while read < _READ:
        page = await queue.jobs(wanted.selection, after=after, limit=limit)
        read += len(page)
        for job in filter(wanted.accepts, page):
            if len(rows) == SHOWN:
                return JobPage(rows=rows, next=rows[-1].id, searched=read)
            rows.append(_row(job))
        if len(page) < limit:
            return JobPage(rows=rows, next="", searched=read)
        after = page[-1].id
    return JobPage(rows=rows, next=after, searched=read, cut=True)


def _row(job: Job) -> JobRow:
    failure = job.failure
    if failure is None or job.state is State.COMPLETED:
        return msgspec.structs.replace(row_of(job), failure="")
    return msgspec.structs.replace(
        row_of(job), failure=f"{failure.exception_name or failure.error_type}: {failure.message}"
    )


async def choices_of(queue: Queue, access: Access, run: str) -> dict[str, Any]:
    """Return the runs, kinds and partitions that people can choose from."""
    counts = [count for count in await queue.stats() if access.reaches(count)]
    ours = [count for count in counts if not run or count.run == run_of(run)]
    return {
        "runs": sorted({count.run for count in counts}, reverse=True)[:200],
        "kinds": sorted({count.kind for count in ours})[:200],
        "partitions": sorted({count.partition for count in ours if count.partition})[:400],
        "states": list(State),
    }
