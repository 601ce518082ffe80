"""The kit: the tools a handler is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longshore.job import Job


class Kit:
    """What a handler is given beside its job.

    Made for every attempt, so making one costs next to nothing: the log is bound to the job when it is first asked for,
    and `http` opens its connections when it first fetches.
    """

    __slots__ = ("_bound", "_log", "http", "job")

    def __init__(self, log: Any, http: Any, job: Job) -> None:
        """`log` is the worker's own structlog logger."""
        self._log = log
        self._bound: Any = None
        self.http = http
        """Fetches pages: an `Http` in async handlers (`await kit.http.get(url)`), a `SyncHttp` in plain ones."""
        self.job = job

    @property
    def log(self) -> Any:
        """A structlog logger whose lines carry the job: `kit.log.info("parsed", rows=12)`."""
        if self._bound is None:
            self._bound = self._log.bind(job_id=self.job.id, kind=self.job.kind)
        return self._bound
