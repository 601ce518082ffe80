"""OpenTelemetry traces of jobs: submitted, claimed, attempted, settled, across processes.

A job needs no field for its trace: its trace id and the id of its first span are made of its run, kind and key, so
every process that handles it knows them, on every medium. The trace of a job has the span of its submission and, below
it, one span for each attempt. A call of the queue handles many jobs at once: it is a span of a trace of its own, with
links to the spans of its jobs.

Everything is off until `begin`, and costs nothing then. The endpoint, the sampler and the name of the service come from
the environment variables of OpenTelemetry (OTEL_…). A sampler that decides by the trace id takes the same jobs in every
process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from longshore.errors import SettingsError
from longshore.job import Job, NewJob
from longshore.lease import Lease
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Queue, Submitted
from longshore.wrappers.traced import TracedQueue

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Link, Span, SpanContext

_SPANS_WAITING = 20_000
"""Spans that wait to be sent. A batch of submitted jobs has thousands of them."""
_MOST_LINKS = 128
"""Links of one span: more are dropped by OpenTelemetry anyway."""
_MOST_KNOWN = 20_000
"""Claims and attempts that are remembered until they are settled. Those of lost leases are never settled."""
_FLUSH_MILLISECONDS = 5000

_active: JobTraces | None = None


def begin(*, wanted: bool) -> None:
    """Begin to trace this process, if it is `wanted`. Raise `SettingsError` if the extra is not installed."""
    if not wanted or _active is not None:
        return
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise SettingsError("Traces need the extra `traces`. Fix: pip install 'longshore[traces]'.")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    begin_with(BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=_SPANS_WAITING))


def begin_with(processor: SpanProcessor) -> JobTraces:
    """Begin to trace this process with this processor of spans."""
    global _active  # noqa: PLW0603  (like the provider of OpenTelemetry, one for the process)
    _active = JobTraces(processor)
    return _active


def end() -> None:
    """Send what is left, for a few seconds at most, and trace no more."""
    global _active  # noqa: PLW0603
    if _active is not None:
        _active.flush()
        _active = None


def active() -> JobTraces | None:
    """Return the traces of this process; None if it is not traced."""
    return _active


def traced(queue: Queue) -> Queue:
    """Return the queue, wrapped so that its calls are traced if this process is."""
    return queue if _active is None else TracedQueue(queue, _active)


class JobTraces:
    """The spans of the jobs that this process handles."""

    def __init__(self, processor: SpanProcessor) -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider

        named = Resource({SERVICE_NAME: "longshore", "service.version": version("longshore")})
        self._ids = _job_ids()
        self._provider: TracerProvider = TracerProvider(
            id_generator=self._ids, resource=named.merge(OTELResourceDetector().detect())
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("longshore", version("longshore"))
        self._claims: dict[tuple[str, int], SpanContext] = {}
        self._attempts: dict[tuple[str, int], SpanContext] = {}

    def flush(self) -> None:
        """Send the spans that have ended, for a few seconds at most."""
        self._provider.force_flush(_FLUSH_MILLISECONDS)
        self._provider.shutdown()

    def submitted(self, jobs: Sequence[NewJob], answer: Submitted, began: int) -> None:
        """Note the submission of jobs: the first span of each, and one for the call."""
        contexts = [self._job_context(each.run, each.kind, each.key) for each in jobs]
        given = {"longshore.jobs": len(jobs), "longshore.new": answer.new, "longshore.duplicates": answer.duplicates}
        call = self._call("submit", contexts, began, given)
        if answer.new == len(jobs):  # of others it is not known which are new
            self._begin_jobs(jobs, call, began)

    def claimed(self, leases: Sequence[Lease], began: int) -> None:
        """Note the claim of jobs."""
        contexts = [self._context_of(lease.job) for lease in leases]
        call = self._call("claim", contexts, began, {"longshore.jobs": len(leases)})
        for lease in leases:
            _remember(self._claims, lease, call)

    async def attempt(self, lease: Lease, run: Callable[[Lease], Awaitable[Outcome | None]]) -> Outcome | None:
        """Make an attempt within a span, which is the current one for everything that the handler traces itself."""
        from opentelemetry import trace

        job = lease.job
        claim = self._claims.pop((job.id, lease.epoch), None)
        parent = trace.set_span_in_context(trace.NonRecordingSpan(self._context_of(job)))
        span = self._tracer.start_span(
            f"attempt {job.kind}",
            context=parent,
            kind=trace.SpanKind.CONSUMER,
            links=[] if claim is None else [trace.Link(claim)],
            attributes={
                "longshore.run": job.run,
                "longshore.kind": job.kind,
                "longshore.job_id": job.id,
                "longshore.attempt": job.attempt,
                "longshore.worker": lease.worker.label,
            },
        )
        _remember(self._attempts, lease, span.get_span_context())
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            outcome = await run(lease)
            _tell(span, outcome)
        return outcome

    def settled(self, settlements: Sequence[Settlement], accepted: Sequence[bool], began: int) -> None:
        """Note the settlement of attempts, and the submission of their follow-on jobs."""
        contexts = [self._attempted(each.lease) for each in settlements]
        given = {"longshore.jobs": len(settlements), "longshore.refused": accepted.count(False)}
        call = self._call("settle", contexts, began, given)
        for each, is_accepted in zip(settlements, accepted, strict=True):
            if is_accepted and isinstance(each.outcome, Completed) and each.outcome.jobs:
                self._begin_jobs(each.outcome.jobs, call, began, run=each.lease.job.run)

    def _call(self, name: str, contexts: Iterable[SpanContext], began: int, attributes: dict[str, int]) -> SpanContext:
        from opentelemetry import trace
        from opentelemetry.context import Context

        links = [trace.Link(each) for each in list(contexts)[:_MOST_LINKS]]
        span = self._tracer.start_span(
            name, context=Context(), kind=trace.SpanKind.CLIENT, start_time=began, links=links, attributes=attributes
        )
        span.end()
        return span.get_span_context()

    def _begin_jobs(self, jobs: Sequence[NewJob], call: SpanContext, began: int, run: str | None = None) -> None:
        """Make the first span of each job. All other spans of the job are below it."""
        from opentelemetry import trace
        from opentelemetry.context import Context

        links: list[Link] = [trace.Link(call)]
        for job in jobs:
            name = job.run if run is None else run
            self._ids.following = _ids_of(name, job.kind, job.key)
            self._tracer.start_span(
                f"submit {job.kind}",
                context=Context(),
                kind=trace.SpanKind.PRODUCER,
                start_time=began,
                links=links,
                attributes={"longshore.run": name, "longshore.kind": job.kind},
            ).end()
            self._ids.following = None

    def _attempted(self, lease: Lease) -> SpanContext:
        """Return the span of the attempt, or the first one of a job that was given back without an attempt."""
        known = (lease.job.id, lease.epoch)
        return self._attempts.pop(known) if known in self._attempts else self._context_of(lease.job)

    def _context_of(self, job: Job) -> SpanContext:
        return self._job_context(job.run, job.kind, job.key)

    def _job_context(self, run: str, kind: str, key: str) -> SpanContext:
        from opentelemetry import trace
        from opentelemetry.sdk.trace.sampling import Decision

        trace_id, span_id = _ids_of(run, kind, key)
        decision = self._provider.sampler.should_sample(None, trace_id, "job").decision
        flags = trace.TraceFlags.SAMPLED if decision is Decision.RECORD_AND_SAMPLE else trace.TraceFlags.DEFAULT
        return trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))


def _job_ids() -> Any:
    """Return a generator of ids that makes random ones, or those of the job that is `following`."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class JobIds(RandomIdGenerator):
        following: tuple[int, int] | None = None

        def generate_trace_id(self) -> int:
            return super().generate_trace_id() if self.following is None else self.following[0]

        def generate_span_id(self) -> int:
            return super().generate_span_id() if self.following is None else self.following[1]

    return JobIds()


def _ids_of(run: str, kind: str, key: str) -> tuple[int, int]:
    """Return the trace id of a job, and the id of its first span."""
    digest = hashlib.sha256("\0".join(("longshore", run, kind, key)).encode()).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1


def _remember(known: dict[tuple[str, int], SpanContext], lease: Lease, context: SpanContext) -> None:
    known[lease.job.id, lease.epoch] = context
    if len(known) > _MOST_KNOWN:
        del known[next(iter(known))]


def _tell(span: Span, outcome: Outcome | None) -> None:
    from opentelemetry.trace import Status, StatusCode

    match outcome:
        case Failed(failure):
            span.set_attribute("longshore.outcome", "failed")
            span.set_attribute("error.type", failure.error_type)
            span.set_status(Status(StatusCode.ERROR, failure.error_type))
        case Completed():
            span.set_attribute("longshore.outcome", "completed")
        case Snoozed():
            span.set_attribute("longshore.outcome", "snoozed")
        case Released():
            span.set_attribute("longshore.outcome", "released")
        case None:
            span.set_attribute("longshore.outcome", "lost")
