"""The bodies of the plain task routes. A request with a field that is not listed here is refused."""

from __future__ import annotations

import secrets
from typing import Annotated, TypeAlias

import msgspec

from longshore.errors import Failure
from longshore.extensions.worker_orders import WorkerOrder
from longshore.handlers.result import reported_failure
from longshore.job import DEFAULT_MAX_ATTEMPTS, Job, NewJob, State, new_job
from longshore.lease import DEFAULT_LEASE, WorkerId
from longshore.media.http.wire import ApiRequest, ClaimRequest, WorkerBody
from longshore.server.served import LIMITS
from longshore.stored import BIGGEST, LONGEST, Json, JsonObject

DEFAULT_RUN = "tasks"
_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=LONGEST.total_seconds())]
_LeaseSeconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0.001, le=LIMITS.lease_seconds)]
_Attempts: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=BIGGEST)]
_Priority: TypeAlias = Annotated[int, msgspec.Meta(ge=-BIGGEST, le=BIGGEST)]


class HealthBody(msgspec.Struct, frozen=True):
    status: str


class NewTask(ApiRequest, frozen=True, kw_only=True):
    """A task to create."""

    type: _Name
    params: JsonObject = msgspec.field(default_factory=dict)
    run: str = DEFAULT_RUN
    key: str | None = None
    """Makes the task unique among its type in its run. Without one, every call creates a task."""
    priority: _Priority = 0
    max_attempts: _Attempts = DEFAULT_MAX_ATTEMPTS

    def job(self) -> NewJob:
        """Return the task as a job. Raise `UsageError` for values that no medium can store."""
        return new_job(
            self.type,
            self.params,
            run=self.run,
            key=secrets.token_hex(16) if self.key is None else self.key,
            priority=self.priority,
            max_attempts=self.max_attempts,
        )


class TaskBody(msgspec.Struct, frozen=True, kw_only=True):
    """A task with its result, or with the error of its last failed attempt."""

    id: str
    type: str
    params: JsonObject
    run: str
    status: State
    attempts: int
    """The number of ended attempts."""
    max_attempts: int
    worker_id: str | None
    """The worker that has the task, or that settled it."""
    result: Json
    error: Failure | None
    created_at: float
    """Seconds since 1970."""
    finished_at: float | None

    @classmethod
    def of(cls, job: Job) -> TaskBody:
        return cls(
            id=job.id,
            type=job.kind,
            params=job.payload,
            run=job.run,
            status=job.state,
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            worker_id=job.worker,
            result=job.result,
            error=job.failure,
            created_at=job.submitted_at,
            finished_at=job.settled_at,
        )


class TaskClaim(ApiRequest, frozen=True, kw_only=True):
    """A request for one task."""

    worker_id: _Name
    """A name of the worker, for people."""
    types: frozenset[str] | None = None
    """The types that the worker can do; null for all."""
    run: str | None = None
    lease_seconds: _LeaseSeconds = DEFAULT_LEASE.total_seconds()
    """How long the worker may be silent until the task is given to another one."""
    wait_seconds: _Seconds = 0.0
    """Wait up to this long for a task if there is none; the server may answer earlier."""

    def claim(self) -> ClaimRequest:
        """Return the claim of one job, by a holder that no other claim has."""
        return ClaimRequest(
            worker=WorkerBody.of(WorkerId.new(self.worker_id)),
            limit=1,
            lease_seconds=self.lease_seconds,
            run=self.run,
            kinds=self.types,
            wait_seconds=self.wait_seconds,
        )


class ClaimedTask(msgspec.Struct, frozen=True):
    """A claimed task, and the token with which alone it can be settled."""

    id: str
    type: str
    params: JsonObject
    lease: str
    lease_seconds: float
    attempt: int
    """1 for the first attempt."""


class TaskRelease(ApiRequest, frozen=True, kw_only=True):
    """Proof that the task is held: the `lease` of its claim."""

    lease: str = ""


class TaskRenewal(TaskRelease, frozen=True, kw_only=True):
    lease_seconds: _LeaseSeconds = DEFAULT_LEASE.total_seconds()


class TaskResult(TaskRelease, frozen=True, kw_only=True):
    result: Json = None
    seconds: _Seconds | None = None
    """How long the work took."""


class TaskError(TaskRelease, frozen=True, kw_only=True):
    """An error; only `error` is needed."""

    error: str
    error_type: str = ""
    """`validation connection processing timeout crash`, or a name of the worker's own."""
    retryable: bool | None = None
    """Whether another attempt may help. If it is not said, all errors are tried again except validation."""
    traceback: str = ""
    seconds: _Seconds | None = None

    def failure(self) -> Failure:
        """Return the error as it is stored, with secrets masked."""
        return reported_failure(msgspec.structs.asdict(self))


class RenewedTask(msgspec.Struct, frozen=True):
    id: str
    lease_seconds: float
    order: WorkerOrder | None = None
    """`drain`: finish this task and end. `stop`: release this task and end. Each order is told once."""


class SettledTask(msgspec.Struct, frozen=True):
    id: str
    status: State
    """`pending` if the task will be tried again."""
