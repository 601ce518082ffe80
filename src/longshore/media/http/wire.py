"""The bodies of the HTTP API, as the server and the client both read them.

Durations are seconds, instants are seconds since 1970, absent filters are null. A request with a field that is not
listed here is refused; an answer may gain fields, so a client ignores those that it does not know.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

import msgspec

from longshore.errors import Failure, UsageError
from longshore.extensions.archive import Month
from longshore.extensions.presence import WorkerInfo
from longshore.extensions.shared_state import StateEntry
from longshore.extensions.traces import BundleEntry, StoredPage
from longshore.extensions.transfer import Carried
from longshore.extensions.worker_orders import WorkerOrder
from longshore.job import DEFAULT_MAX_ATTEMPTS, Attempt, CameFrom, Job, JobName, NewJob, State, new_job
from longshore.lease import DEFAULT_LEASE, Want, WorkerId
from longshore.outcome import Completed, Failed, Outcome, Released, Snoozed
from longshore.queue import Count, Selection, Traits
from longshore.stored import LONGEST, Json, JsonObject, encode

JSON = "application/json"
PROBLEM = "application/problem+json"
LONGEST_NAME, LONGEST_KEY = 1000, 5000
"""Characters of the names of a job, and of its key, which may be a URL."""


RecordBody: TypeAlias = tuple[str, msgspec.Raw]
"""The kind of a record, and its data."""
RejectedBody: TypeAlias = tuple[str, str, int]
"""The kind of records, why they were rejected, and how many."""


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The root of all request bodies."""


class NewJobBody(ApiRequest, frozen=True, kw_only=True):
    """A job to create. Without `key`, its URL makes it unique, or else its whole payload."""

    kind: str
    payload: JsonObject
    run: str = ""
    key: str | None = None
    priority: int = 0
    partition: str = ""
    host: str | None = None
    not_before: float | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS

    @classmethod
    def of(cls, job: NewJob) -> NewJobBody:
        """Return the body that creates this job. Raise `UsageError` if the payload cannot be stored."""
        payload: Json = msgspec.Raw(encode(job.payload, "A job's payload"))
        return cls(
            kind=job.kind,
            payload=payload,
            run=job.run,
            key=job.key,
            priority=job.priority,
            partition=job.partition,
            host=job.host,
            not_before=job.not_before,
            max_attempts=job.max_attempts,
        )

    def job(self) -> NewJob:
        """Return the job. Raise `UsageError` for values that no medium can store."""
        return new_job(
            self.kind,
            self.payload,
            run=self.run,
            key=self.key,
            priority=self.priority,
            partition=self.partition,
            host=self.host,
            not_before=self.not_before,
            max_attempts=self.max_attempts,
        )


class SubmitRequest(ApiRequest, frozen=True, kw_only=True):
    """Jobs to create, all of them or, after an error, none."""

    jobs: list[NewJobBody]
    items: bool = False
    """Say for each job whether it is new."""


class WorkerBody(ApiRequest, frozen=True, kw_only=True):
    """The worker that claims and renews: a name for people, and a random text that no other worker knows."""

    label: str
    incarnation: str

    @classmethod
    def of(cls, worker: WorkerId) -> WorkerBody:
        return cls(label=worker.label, incarnation=worker.incarnation)

    def worker(self) -> WorkerId:
        return WorkerId(self.label, self.incarnation)


class ClaimRequest(ApiRequest, frozen=True, kw_only=True):
    """The jobs that a worker asks for. A filter that is null matches everything."""

    worker: WorkerBody
    limit: int = 1
    lease_seconds: float = DEFAULT_LEASE.total_seconds()
    run: str | None = None
    kinds: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    without_hosts: frozenset[str] = frozenset()
    wait_seconds: float = 0.0
    """Wait up to this long for a job if there is none; the server may answer earlier."""
    claim_id: str = ""
    """A random text. If the answer is lost, the same claim with the same id returns the same jobs."""

    @classmethod
    def of(cls, want: Want, claim_id: str = "") -> ClaimRequest:
        return cls(
            claim_id=claim_id,
            worker=WorkerBody.of(want.worker),
            limit=want.limit,
            lease_seconds=want.lease.total_seconds(),
            run=want.run,
            kinds=want.kinds,
            partitions=want.partitions,
            without_hosts=want.without_hosts,
        )

    def want(self, worker: WorkerId) -> Want:
        """Return what is wanted, for `worker`. Raise `UsageError` for values out of bounds."""
        return Want(
            worker=worker,
            limit=self.limit,
            lease=seconds(self.lease_seconds),
            run=self.run,
            kinds=self.kinds,
            partitions=self.partitions,
            without_hosts=self.without_hosts,
        )


class ClaimedJob(msgspec.Struct, frozen=True):
    """A claimed job, and the token with which alone it can be settled."""

    job: Job
    lease: str
    deadline: float


class ClaimAnswer(msgspec.Struct, frozen=True):
    jobs: list[ClaimedJob]


class CompletedBody(ApiRequest, frozen=True, kw_only=True, tag="completed"):
    result: Json = None
    jobs: list[NewJobBody] = []


class FailedBody(ApiRequest, frozen=True, kw_only=True, tag="failed"):
    failure: Failure
    retry_in_seconds: float = 0.0
    max_attempts: int | None = None


class SnoozedBody(ApiRequest, frozen=True, kw_only=True, tag="snoozed"):
    delay_seconds: float


class ReleasedBody(ApiRequest, frozen=True, kw_only=True, tag="released"):
    pass


OutcomeBody: TypeAlias = CompletedBody | FailedBody | SnoozedBody | ReleasedBody


def outcome_body(outcome: Outcome) -> OutcomeBody:
    """Return an outcome as it is sent. Raise `UsageError` if it cannot be stored."""
    match outcome:
        case Completed():
            result: Json = msgspec.Raw(encode(outcome.result, "A result"))
            return CompletedBody(result=result, jobs=[NewJobBody.of(job) for job in outcome.jobs])
        case Failed():
            encode(outcome.failure, "A failure")
            retry_in = outcome.retry_in.total_seconds()
            return FailedBody(failure=outcome.failure, retry_in_seconds=retry_in, max_attempts=outcome.max_attempts)
        case Snoozed():
            return SnoozedBody(delay_seconds=outcome.delay.total_seconds())
        case Released():
            return ReleasedBody()


def outcome_of(body: OutcomeBody) -> Outcome:
    """Return the outcome that was sent. Raise `UsageError` for values out of bounds."""
    match body:
        case CompletedBody():
            return Completed(body.result, tuple(job.job() for job in body.jobs))
        case FailedBody():
            return Failed(body.failure, seconds(body.retry_in_seconds), body.max_attempts)
        case SnoozedBody():
            return Snoozed(seconds(body.delay_seconds))
        case ReleasedBody():
            return Released()


class SettlementBody(ApiRequest, frozen=True, kw_only=True):
    """The outcome of the attempt under a lease."""

    lease: str
    outcome: OutcomeBody
    seconds: float | None = None
    came_from: tuple[CameFrom, ...] = ()
    """For an attempt that was made in another queue, of an offline checkout: the queues it came through."""
    handler_version: str = ""
    """The version of the handler that made the attempt, for people who compare results."""
    records: list[RecordBody] = []
    """The records of a completed attempt; they are stored before it is settled, and count with the settlement."""


class SettleRequest(ApiRequest, frozen=True, kw_only=True):
    """Outcomes, each guarded by its lease; with `claim`, the next jobs are claimed in the same call."""

    settlements: list[SettlementBody]
    claim: ClaimRequest | None = None


class SettleAnswer(msgspec.Struct, frozen=True):
    accepted: list[bool]
    """For each settlement, in order: false if the lease is lost. Nothing of a refused one is written."""
    jobs: list[ClaimedJob] = []


class HeldLease(ApiRequest, frozen=True, kw_only=True):
    """A lease by the id of its job and the epoch of its claim."""

    job: str
    epoch: int


class RenewRequest(ApiRequest, frozen=True, kw_only=True):
    """Extends all leases of a worker. With `info` the worker is listed as present, with that information."""

    worker: WorkerBody
    lease_seconds: float
    info: WorkerInfo | None = None
    leases: list[str] = []
    """The tokens that the worker has; the answer says which are lost."""


class RenewAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    held: list[HeldLease]
    """All leases of the worker. One that it knows and that is not listed is lost."""
    lost: list[str] = []
    """Those of the given tokens that are lost: stop working on their jobs."""
    order: WorkerOrder | None = None
    """`drain`: finish the jobs under way and claim no others. `stop`: give all jobs back, and end."""


class LeaseRequest(ApiRequest, frozen=True, kw_only=True):
    """Asks for the tokens of leases that a worker holds, if the answer to its claim was lost."""

    worker: WorkerBody
    held: list[HeldLease]


class LeaseAnswer(msgspec.Struct, frozen=True):
    leases: list[str]
    """A token for each lease, in order. Whether the lease still holds is decided when it is settled."""


class SignOffRequest(ApiRequest, frozen=True, kw_only=True):
    worker: WorkerBody


class PresentWorkerBody(msgspec.Struct, frozen=True, omit_defaults=True):
    label: str
    incarnation: str
    """Its public part."""
    info: WorkerInfo
    unseen_seconds: float | None = None
    """Set if it probably is not alive: how long ago it was last seen."""


class WorkersAnswer(msgspec.Struct, frozen=True):
    workers: list[PresentWorkerBody]


class SelectionBody(ApiRequest, frozen=True, kw_only=True):
    """The jobs for which every given condition holds."""

    run: str | None = None
    ids: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    states: frozenset[State] | None = None
    error: str | None = None
    older_than_seconds: float | None = None
    everything: bool = False
    """Must be true for an operation on all jobs: a filter that was left empty by mistake is refused."""

    @classmethod
    def of(cls, selection: Selection) -> SelectionBody:
        older = selection.older_than
        return cls(
            everything=selection == Selection(),
            run=selection.run,
            ids=selection.ids,
            kinds=selection.kinds,
            partitions=selection.partitions,
            states=selection.states,
            error=selection.error,
            older_than_seconds=None if older is None else older.total_seconds(),
        )

    def selection(self) -> Selection:
        """Return the selection. Raise `UsageError` for values out of bounds."""
        return Selection(
            run=self.run,
            ids=self.ids,
            kinds=self.kinds,
            partitions=self.partitions,
            states=self.states,
            error=self.error,
            older_than=None if self.older_than_seconds is None else seconds(self.older_than_seconds),
        )


class JobsRequest(ApiRequest, frozen=True, kw_only=True):
    """A page of jobs, oldest first; `after` is the id of the last job of the page before."""

    where: SelectionBody
    after: str = ""
    limit: int = 100


class JobsAnswer(msgspec.Struct, frozen=True):
    jobs: list[Job]


class AttemptsAnswer(msgspec.Struct, frozen=True):
    attempts: list[Attempt]


class StatsAnswer(msgspec.Struct, frozen=True):
    counts: list[Count]


class ChangeRequest(ApiRequest, frozen=True, kw_only=True):
    """The jobs that an operation changes."""

    where: SelectionBody


class ChangeAnswer(msgspec.Struct, frozen=True):
    changed: int


class WaitRequest(ApiRequest, frozen=True, kw_only=True):
    """Asks to be told when there may be a job for `want`, for at most `timeout_seconds`."""

    want: ClaimRequest
    timeout_seconds: float


class WaitAnswer(msgspec.Struct, frozen=True):
    ready: bool
    """There may be a job to claim."""
    waited_seconds: float
    """By the server's clock. Less than was asked for if the server ends long waits; the client asks again."""


class SwapRequest(ApiRequest, frozen=True, kw_only=True):
    """Shared entries to write, each if its version is still the given one."""

    namespace: str
    entries: list[StateEntry]


class SwapAnswer(msgspec.Struct, frozen=True):
    versions: list[str | None]


class ReadRequest(ApiRequest, frozen=True, kw_only=True):
    """The entries of a namespace to read; all of them if `names` is null."""

    namespace: str
    names: frozenset[str] | None = None


class NothingRequest(ApiRequest, frozen=True, kw_only=True):
    """An empty object: the route needs no more than to be called."""


class PayloadsRequest(ApiRequest, frozen=True, kw_only=True):
    """The names of jobs of a run whose payloads or ids are wanted."""

    run: str
    names: list[JobName]


class PayloadsAnswer(msgspec.Struct, frozen=True):
    payloads: list[JsonObject | None]
    """In order; null for a job that the queue does not have."""


class IdsAnswer(msgspec.Struct, frozen=True):
    ids: list[str | None]
    """In order; null for a job that the queue does not have."""


class TakeOverRequest(ApiRequest, frozen=True, kw_only=True):
    carried: list[Carried]


class ArchiveAnswer(msgspec.Struct, frozen=True):
    months: list[Month]


class RateAnswer(msgspec.Struct, frozen=True):
    rate: float


class EmittedBody(ApiRequest, frozen=True, kw_only=True):
    """The records of an attempt, and how many its filter rejected."""

    records: list[RecordBody] = []
    rejected: list[RejectedBody] = []


class AttemptRecordsBody(EmittedBody, frozen=True, kw_only=True):
    lease: str


class RecordsRequest(ApiRequest, frozen=True, kw_only=True):
    """Records of attempts that are about to be settled as completed. They count with the settlement."""

    attempts: list[AttemptRecordsBody]


class RevisedBody(EmittedBody, frozen=True, kw_only=True):
    job: str
    epoch: int


class RevisedRequest(ApiRequest, frozen=True, kw_only=True):
    """Records that replace those of completed jobs, after a new parse of their pages."""

    attempts: list[RevisedBody]


class RecordsAnswer(msgspec.Struct, frozen=True):
    refused: list[str | None]
    """For each attempt, in order, why its records can never be stored; null if they are stored."""


class MissingRequest(ApiRequest, frozen=True, kw_only=True):
    """Contents of pages by their SHA-256."""

    contents: list[str]


class MissingAnswer(msgspec.Struct, frozen=True):
    missing: list[str]


class ContentsRequest(ApiRequest, frozen=True, kw_only=True):
    """Contents of pages, in base64."""

    contents: list[bytes]


class ContentsAnswer(msgspec.Struct, frozen=True):
    contents: list[str]
    """The SHA-256 of each."""


class PagesRequest(ApiRequest, frozen=True, kw_only=True):
    """The pages that the attempt under a lease fetched, in order."""

    lease: str
    pages: list[StoredPage]


class PagesAnswer(msgspec.Struct, frozen=True):
    pages: list[StoredPage]


class BundleRequest(ApiRequest, frozen=True, kw_only=True):
    """A failure bundle of the attempt under a lease. Binary fields are base64."""

    lease: str
    bundle: msgspec.Raw
    """The failure, its signature, its exchanges, worker and settings; as `bundle.json` has it."""
    bodies: list[bytes] = []
    """The body of each exchange, in order."""
    screenshot: bytes = b""
    """A PNG."""


class KeptAnswer(msgspec.Struct, frozen=True):
    kept: bool


class BundlesAnswer(msgspec.Struct, frozen=True):
    bundles: list[BundleEntry]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one request."""

    body_bytes: int
    claim: int
    """The most jobs of one claim."""
    page: int
    """The most jobs of one page."""
    wait_seconds: float
    """The longest wait of one request."""
    lease_seconds: float
    follow_ons: int = 100_000
    """The most follow-on jobs of one attempt."""
    result_bytes: int = 16 * 1024 * 1024
    """The longest result, or failure, of one attempt, as JSON."""
    name: int = LONGEST_NAME
    """The most characters of the run, kind, partition and host of a job."""
    key: int = LONGEST_KEY
    """The most characters of the key of a job."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a server: its version, its limits, and the traits of its queue."""

    version: str
    read_only: bool
    limits: Limits
    traits: Traits


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An error, as RFC 9457 has it; `code` is stable and names the class of the error."""

    title: str
    status: int
    detail: str = ""
    code: str = ""
    errors: list[str] = []
    """Every fault, if there may be several."""


def seconds(value: float) -> timedelta:
    """Return a duration. Raise `UsageError` if it is not a duration from 0 to 100 years."""
    if not 0 <= value <= LONGEST.total_seconds():
        raise UsageError(f"A duration must be from 0 seconds to 100 years, not {value!r:.40}")
    return timedelta(seconds=value)
