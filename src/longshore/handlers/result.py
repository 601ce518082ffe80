"""The values that a handler may return or raise, and the outcome of each.

    any JSON value             completed, with that result
    {"success": false, ...}    failed, with its `error`, `error_type`, `retryable` and `traceback`
    a list of new jobs         completed, with these follow-on jobs
    Result                     completed, with follow-on jobs or a message
    Partial                    completed with results and errors side by side, unless every part failed
    Snooze                     pending again later, no attempt counted
    an exception raised        failed; the error says whether it is retryable; a SnoozeError is a Snooze; a link that
                               robots.txt forbids is completed with {"skipped": why}

A result is encoded here, once; media store the bytes unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from longshore.errors import (
    Failure,
    LongshoreError,
    ProcessingError,
    SnoozeError,
    UsageError,
    ValidationError,
    WorkerError,
)
from longshore.handlers.handler import Handler
from longshore.job import Job, NewJob, derived_key
from longshore.masking import mask_text
from longshore.outcome import Completed, Failed, Outcome, Released, Snoozed, skipped
from longshore.stored import has_nan


class Result(msgspec.Struct, frozen=True):
    """A result with follow-on jobs or a message.

    Follow-on jobs (made by `new_job`) join the run of the job they came from, and appear together with the result. A
    result with a message is stored as `{"success": true, "data": ..., "message": ...}`, as if the handler had returned
    this dict; without a message, only `data` is stored.
    """

    data: object = None
    jobs: Sequence[NewJob] = ()
    message: str = ""


class Partial(msgspec.Struct, frozen=True):
    """The result of work in several parts of which some failed: results and errors side by side.

    It counts as a success, and is stored as `{"results": [...], "errors": [...]}`, unless there are errors and no
    results: then the attempt failed, and is retried if at least one of the errors is retryable. An error may be an
    exception or any JSON value.
    """

    results: Sequence[object] = ()
    errors: Sequence[object] = ()


class Snooze(msgspec.Struct, frozen=True):
    """A postponement: the job is pending again after `seconds` seconds. Costs no attempt."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError(f"Snooze({self.seconds!r}): give it seconds from 0 up")


def outcome_of(handler: Handler, job: Job, value: object) -> Outcome:
    """Return the outcome of an attempt that returned this value."""
    try:
        match value:
            case dict():
                if value.get("success") is False:
                    return failed_outcome(handler, job, reported_failure(value))
                return Completed(_json(value))
            case list([NewJob(), *_]):
                return _completed(handler, job, Result(jobs=value))
            case Result():
                return _completed(handler, job, value)
            case Partial():
                return _completed(handler, job, Result(value))
            case Snooze():
                return Snoozed(timedelta(seconds=value.seconds))
            case Completed() | Failed() | Snoozed() | Released():
                return outcome_of_error(handler, job, _not_a_result(value))
            case _:
                return Completed(_json(value))
    except ProcessingError as error:
        return outcome_of_error(handler, job, error)


def _not_a_result(value: Outcome) -> ProcessingError:
    return ProcessingError(
        f"The handler returned {type(value).__name__}, which only the worker makes. "
        "Return a value, Result, Partial or Snooze, or raise an error.",
        retryable=False,
    )


def outcome_of_error(handler: Handler, job: Job, error: BaseException) -> Failed | Snoozed | Completed:
    """Return the outcome of an attempt that raised this error.

    A link that the site's robots.txt forbids is no fault of anyone: a job that another job has found is skipped.
    """
    if isinstance(error, SnoozeError):
        return Snoozed(error.snooze)
    if isinstance(error, WorkerError) and error.skips_links and not error.retryable and job.parent is not None:
        return skipped(mask_text(str(error)))
    return failed_outcome(handler, job, Failure.of(error))


def failed_outcome(handler: Handler, job: Job, failure: Failure) -> Failed:
    """Return the outcome of an attempt with this failure."""
    # The medium compares attempts with the limit when it settles; this only passes the handler's own limit on.
    limit = None if handler.retries is None else handler.retries + 1
    attempts = job.max_attempts if limit is None else limit
    has_retry = failure.retryable and job.attempt < attempts
    return Failed(failure, handler.retry_in(job.attempt) if has_retry else timedelta(0), limit)


def _completed(handler: Handler, job: Job, result: Result) -> Outcome:
    data = result.data
    if isinstance(data, Partial):
        if data.errors and not data.results:
            return failed_outcome(handler, job, _all_failed(data.errors))
        data = {"results": list(data.results), "errors": [_part_error(error) for error in data.errors]}
    for follow_on in result.jobs:
        _check_follow_on(follow_on)
    # A page does not know the kind of its job: links that it follows are of this kind unless another is named.
    jobs = tuple(each if each.kind else msgspec.structs.replace(each, kind=job.kind) for each in result.jobs)
    if handler.identities:
        jobs = tuple(_identified(handler, follow_on) for follow_on in jobs)
    if result.message:
        data = {"success": True, "data": data, "message": result.message}
    return Completed(_json(data), jobs)


_ERROR_TYPES = frozenset({WorkerError.error_type, *(c.error_type for c in WorkerError.__subclasses__())})


def reported_failure(envelope: Mapping[Any, object]) -> Failure:
    """Return the failure that was reported as an envelope with `success: false`, secrets masked."""
    named = str(envelope.get("error_type") or ProcessingError.error_type)
    known = named if named in _ERROR_TYPES else WorkerError.error_type
    retryable = envelope.get("retryable")
    return Failure(
        error_type=known,
        message=mask_text(
            str(envelope.get("error") or envelope.get("message") or "The handler returned success: false")
        ),
        # A user-defined type is stored as the exception's name, so that selections by error find it.
        exception="" if known == named else named,
        retryable=known != ValidationError.error_type if retryable is None else bool(retryable),
        traceback=mask_text(str(envelope.get("traceback") or "")),
    )


def _all_failed(errors: Sequence[object]) -> Failure:
    shown = "; ".join(str(error) or type(error).__name__ for error in errors[:3])
    more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
    return Failure(
        error_type=ProcessingError.error_type,
        message=mask_text(f"All {len(errors)} parts failed: {shown}{more}"),
        retryable=any(not isinstance(error, LongshoreError) or error.retryable for error in errors),
    )


def _part_error(error: object) -> object:
    if not isinstance(error, BaseException):
        return error
    failure = Failure.of(error)
    return {"error": failure.message, "error_type": failure.error_type, "retryable": failure.retryable}


def _check_follow_on(job: object) -> None:
    if not isinstance(job, NewJob):
        raise ProcessingError(
            f"A follow-on job is {_type_name(job)}. Make it with longshore.new_job(kind, payload).", retryable=False
        )
    # Otherwise a payload that cannot be stored would be found only in the queue, and fail the whole batch there.
    _encoded(job.payload, msgspec.json.encode, f"The payload of a follow-on '{job.kind}'")


def _identified(handler: Handler, job: NewJob) -> NewJob:
    """Return a follow-on job with the key that the handler of its kind declares, unless it has a key of its own."""
    identity = handler.identities.get(job.kind)
    if identity is None or not job.default_key:
        return job
    try:
        key = derived_key(job.payload, identity)
    except UsageError as error:
        raise ProcessingError(f"A follow-on '{job.kind}': {error}.", retryable=False) from error
    return msgspec.structs.replace(job, key=key, default_key=False)


def _plain(value: object) -> object:
    """Return a pydantic model as plain values, without importing pydantic; raise for any other type."""
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise NotImplementedError
    return dump(mode="json")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


def _json(value: object) -> msgspec.Raw:
    if value is None:
        return _NULL
    return msgspec.Raw(_encoded(value, _encode, "The handler's result"))


_NULL = msgspec.Raw(b"null")


def _encoded(value: object, encode: Callable[[object], bytes], what: str) -> bytes:
    try:
        encoded = encode(value)
        if b"null" not in encoded or not has_nan(value):
            return encoded
        fault = f"{what} cannot be stored as JSON: it has NaN or an infinite number"
    except RecursionError:
        fault = f"{what} contains itself, or is nested too deep"
    except (TypeError, ValueError, NotImplementedError):
        fault = f"{what} cannot be stored as JSON: {_where(value, encode)}"
    raise ProcessingError(f"{fault}. Return plain values: dict, list, str, numbers, None.", retryable=False)


def _where(value: object, encode: Callable[[object], bytes]) -> str:
    """Describe the first innermost value that cannot be encoded, with its path."""
    path = ""
    while True:
        inner = _first_fault(value, encode)
        if inner is None:
            place = f"at {path} " if path else ""
            return f"{place}it has {_type_name(value)}"
        step, value = inner
        path += step


def _first_fault(value: object, encode: Callable[[object], bytes]) -> tuple[str, object] | None:
    if isinstance(value, dict):
        items = [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        items = [(f"[{number}]", item) for number, item in enumerate(value)]
    else:
        return None
    for step, item in items:
        try:
            encode(item)
        except (TypeError, ValueError, NotImplementedError):
            return step, item
    return None


def _type_name(value: object) -> str:
    kind = type(value)
    if isinstance(value, str):
        return "text with half a character (a lone surrogate)"
    if isinstance(value, dict):
        return "a dict with keys that are neither text nor numbers"
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"a value of type {name}"
