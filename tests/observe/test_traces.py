"""Traces of jobs: the spans of their submission, claim, attempts and settlement, linked across processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from longshore.errors import SettingsError
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.observe import traces
from longshore.outcome import Completed, Outcome, Settlement


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    traces.begin_with(SimpleSpanProcessor(exporter))
    yield exporter
    traces.end()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [each for each in spans.get_finished_spans() if each.name == name]


def identity(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> set[tuple[int, int]]:
    return {(each.context.trace_id, each.context.span_id) for each in span.links}


async def test_each_call_of_the_queue_is_linked_to_its_jobs_and_each_attempt_is_below_the_submission(
    spans: InMemorySpanExporter,
) -> None:
    queue = traces.traced(MemoryQueue())
    tracing = traces.active()
    assert tracing is not None
    await queue.submit([new_job("page", {"url": f"https://a.org/{n}"}, run="r") for n in range(3)])
    leases = await queue.claim(Want(worker=WorkerId.new("w"), limit=3))
    seen = []

    async def handle(_: object) -> Outcome:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return Completed(jobs=(new_job("photo", {"n": len(seen)}, run=""),) if len(seen) == 1 else ())

    settlements = [Settlement(lease, await tracing.attempt(lease, handle) or Completed()) for lease in leases]
    assert await queue.settle(settlements) == [True, True, True]

    (call,), (claim,), (settle,) = named(spans, "submit"), named(spans, "claim"), named(spans, "settle")
    jobs, attempts = named(spans, "submit page"), named(spans, "attempt page")
    assert linked(call) == {identity(each) for each in jobs} == linked(claim)
    assert all(linked(each) == {identity(call)} for each in jobs)
    assert {each.parent.span_id for each in attempts if each.parent} == {identity(each)[1] for each in jobs}
    assert {identity(each)[0] for each in attempts} == {identity(each)[0] for each in jobs}
    assert all(linked(each) == {identity(claim)} for each in attempts)
    assert linked(settle) == {identity(each) for each in attempts}
    assert seen == [identity(each)[1] for each in attempts]
    (follow_on,) = named(spans, "submit photo")
    assert linked(follow_on) == {identity(settle)}


async def test_two_processes_agree_on_the_trace_of_a_job_without_telling_each_other(
    spans: InMemorySpanExporter,
) -> None:
    bare = MemoryQueue()
    await traces.traced(bare).submit([new_job("page", {"url": "https://a.org/"}, run="r")])
    (submitted,) = named(spans, "submit page")
    traces.end()
    other = InMemorySpanExporter()
    traces.begin_with(SimpleSpanProcessor(other))
    await traces.traced(bare).claim(Want(worker=WorkerId.new("w")))
    (claim,) = named(other, "claim")
    assert linked(claim) == {identity(submitted)}


async def test_a_sampler_takes_or_leaves_a_job_with_all_its_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    exporter = InMemorySpanExporter()
    tracing = traces.begin_with(SimpleSpanProcessor(exporter))
    try:
        queue = traces.traced(MemoryQueue())
        await queue.submit([new_job("page", {"n": n}, run="r") for n in range(100)])

        async def handle(_: object) -> Outcome:
            return Completed()

        for lease in await queue.claim(Want(worker=WorkerId.new("w"), limit=100)):
            await tracing.attempt(lease, handle)
    finally:
        traces.end()
    jobs = {identity(each)[0] for each in named(exporter, "submit page")}
    assert 20 < len(jobs) < 80
    assert {identity(each)[0] for each in named(exporter, "attempt page")} == jobs


def test_nothing_is_wrapped_while_traces_are_off() -> None:
    queue = MemoryQueue()
    traces.begin(wanted=False)
    assert traces.traced(queue) is queue
    assert traces.active() is None


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.observe.traces.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"longshore\[traces\]"):
        traces.begin(wanted=True)
