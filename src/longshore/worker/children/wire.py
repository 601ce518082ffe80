"""The frames between a worker and its child processes: a length, then that many bytes of JSON.

JSON rather than a denser format, because a result is encoded once, in the child, and stored as it is.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from longshore.job import Job, NewJob
from longshore.outcome import Completed, Failed, Outcome, Released, Snoozed
from longshore.worker.kit.config import KitConfig

_LENGTH = struct.Struct(">I")
HEAD = _LENGTH.size


class Setup(msgspec.Struct, tag="setup"):
    """To the child, first of all: the configuration of its tools, and the handler file as the worker loaded it."""

    tools: KitConfig
    content: bytes | None = None
    """None to load the file as it is now."""
    label: str = ""
    """The name of the worker."""


class RunJob(msgspec.Struct, tag="run"):
    """To the child: run this job."""

    job: Job


class ChildReply(msgspec.Struct, tag="reply"):
    """To the child: the answer to a request."""

    number: int
    value: Any = None
    error: str = ""
    """Why the request failed; empty if it succeeded."""
    retryable: bool = True
    """Whether another attempt may help."""
    snooze: float | None = None
    """Seconds after which the job should be tried again, if the error is that it is too soon."""


class Ready(msgspec.Struct, tag="ready"):
    """From the child: the handler file is imported."""


class BrokenHandlerFile(msgspec.Struct, tag="broken"):
    """From the child: why the handler file cannot be used."""

    message: str


class LogLine(msgspec.Struct, tag="log"):
    """From the child: a log entry."""

    entry: dict[str, Any]


class ChildRequest(msgspec.Struct, tag="request"):
    """From the child: a call to the worker. The reply has the same number."""

    number: int
    name: str
    arguments: tuple[Any, ...]


class ChildNotice(msgspec.Struct, tag="notice"):
    """From the child: information for the worker, without a reply."""

    name: str
    arguments: tuple[Any, ...]


class Done(msgspec.Struct, tag="done"):
    """From the child: the attempt is over."""

    outcome: _Verdict
    seconds: float
    records: msgspec.Raw = msgspec.Raw(b"null")
    """Its records, as JSON; null if there are none."""


class _Finished(msgspec.Struct, tag="completed"):
    """`Completed` in a frame: the result stays encoded."""

    result: msgspec.Raw
    jobs: tuple[NewJob, ...] = ()


_Verdict = _Finished | Failed | Snoozed | Released
FromChild = Ready | BrokenHandlerFile | LogLine | ChildRequest | ChildNotice | Done
ToChild = Setup | RunJob | ChildReply

_encoder = msgspec.json.Encoder(enc_hook=str)
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
_to_child: msgspec.json.Decoder[ToChild] = msgspec.json.Decoder(ToChild)


def pack(frame: ToChild | FromChild) -> bytes:
    """Return the frame as bytes, its length first."""
    body = _encoder.encode(frame)
    return _LENGTH.pack(len(body)) + body


def done(outcome: Outcome, seconds: float, emitted: object = None) -> Done:
    """Return the frame for an outcome and the records of the attempt."""
    records = msgspec.Raw(_encoder.encode(emitted))
    if isinstance(outcome, Completed):
        result = outcome.result
        raw = result if isinstance(result, msgspec.Raw) else msgspec.Raw(_encoder.encode(result))
        return Done(_Finished(raw, outcome.jobs), seconds, records)
    return Done(outcome, seconds, records)


def outcome_in(frame: Done) -> Outcome:
    """Return the outcome of a frame."""
    verdict = frame.outcome
    if isinstance(verdict, _Finished):
        # A copy, or the result would keep the whole frame alive.
        return Completed(verdict.result.copy(), verdict.jobs)
    return verdict


def length_in(head: bytes) -> int:
    """Return how many bytes follow the head."""
    (length,) = _LENGTH.unpack(head)
    return int(length)


def read_from_child(body: bytes) -> FromChild:
    """Decode a frame from the child. Raises `msgspec.MsgspecError` if it is none."""
    return _from_child.decode(body)


def read_from_parent(body: bytes) -> ToChild:
    """Decode a frame from the worker."""
    return _to_child.decode(body)
