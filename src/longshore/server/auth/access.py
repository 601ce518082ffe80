"""The reach of one key: the runs and kinds it is limited to, applied to every request."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from longshore.errors import NotFoundError, UsageError
from longshore.job import Job, NewJob
from longshore.lease import Want
from longshore.media.http.wire import LONGEST_KEY, LONGEST_NAME
from longshore.queue import Count, Selection
from longshore.server.auth.keys import ApiKey, Scope


class Access:
    """The reach of one key. Jobs outside of it do not exist for its holder: every method raises `NotFoundError`."""

    def __init__(self, key: ApiKey, *, read_only: bool = False) -> None:
        """`read_only` says that the server takes no writes, whatever the key may do."""
        self.key = key
        self.read_only = read_only
        self._runs = None if key.runs is None else frozenset(key.runs)
        self._kinds = None if key.kinds is None else frozenset(key.kinds)

    @property
    def is_limited(self) -> bool:
        """Whether the key is limited to some runs or kinds."""
        return self._runs is not None or self._kinds is not None

    @property
    def runs(self) -> frozenset[str] | None:
        """The runs that the key is limited to; None for all."""
        return self._runs

    @property
    def kinds(self) -> frozenset[str] | None:
        """The kinds of jobs that the key is limited to; None for all."""
        return self._kinds

    def reaches_run(self, run: str) -> bool:
        """Return whether a run is within reach."""
        return self._runs is None or run in self._runs

    def may(self, scope: Scope) -> bool:
        """Return whether the key has a scope."""
        return self.key.may(scope)

    def reaches(self, job: Job | NewJob | Count) -> bool:
        """Return whether a job, or a count of jobs, is within the runs and kinds of the key."""
        return self.reaches_name(job.run, job.kind)

    def reaches_name(self, run: str, kind: str) -> bool:
        """Return whether jobs of a run and kind are within reach."""
        return self.reaches_run(run) and (self._kinds is None or kind in self._kinds)

    def reaches_kind(self, kind: str) -> bool:
        """Return whether jobs of a kind are within reach, in some run."""
        return self._kinds is None or kind in self._kinds

    def check_new(self, jobs: Iterable[NewJob]) -> None:
        """Raise `NotFoundError` if a job to create is out of reach, and `UsageError` if a name of it is too long."""
        for job in jobs:
            _check_names(job)
            if not self.reaches(job):
                raise NotFoundError(f"There is no run '{job.run}' with jobs of the kind '{job.kind}' for this key.")

    def check_follow_on(self, jobs: Iterable[NewJob]) -> None:
        """Raise as `check_new` does, for follow-on jobs: their run is that of their parent."""
        for job in jobs:
            _check_names(job)
            if self._kinds is not None and job.kind not in self._kinds:
                raise NotFoundError(f"There are no jobs of the kind '{job.kind}' for this key.")

    def wants(self, want: Want) -> list[Want]:
        """Return what of `want` is within reach: one for each run, if the key is limited to runs and none is named."""
        if self._kinds is not None:
            kinds = self._kinds if want.kinds is None else want.kinds & self._kinds
            want = msgspec.structs.replace(want, kinds=kinds)
        if self._runs is None:
            return [want]
        runs = self._runs if want.run is None else {want.run} & self._runs
        return [msgspec.structs.replace(want, run=run) for run in sorted(runs)]

    def selection(self, asked: Selection) -> Selection:
        """Return what of a selection is within reach."""
        if self._kinds is not None:
            asked = msgspec.structs.replace(
                asked, kinds=self._kinds if asked.kinds is None else asked.kinds & self._kinds
            )
        if self._runs is None:
            return asked
        if asked.run is None and len(self._runs) == 1:
            (run,) = self._runs
            return msgspec.structs.replace(asked, run=run)
        if asked.run is None:
            raise NotFoundError(f"This key is for the runs {', '.join(sorted(self._runs))}: name one of them.")
        if asked.run not in self._runs:
            raise NotFoundError(f"There is no run '{asked.run}' for this key.")
        return asked


def _check_names(job: NewJob) -> None:
    for what, name in (("run", job.run), ("kind", job.kind), ("partition", job.partition), ("host", job.host)):
        if len(name) > LONGEST_NAME:
            raise UsageError(f"The {what} of a job may have {LONGEST_NAME:,} characters, not {len(name):,}.")
    if len(job.key) > LONGEST_KEY:
        raise UsageError(f"The key of a job may have {LONGEST_KEY:,} characters, not {len(job.key):,}.")
