"""What a worker and its child processes say to each other: a length, then that many bytes of JSON.

JSON rather than something denser, because a result is encoded once, in the child, and travels on as it is.
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
    """To the child, before all else: what its tools are to be like."""

    tools: KitConfig


class RunJob(msgspec.Struct, tag="run"):
    """To the child: work on this job."""

    job: Job


class ChildReply(msgspec.Struct, tag="reply"):
    """To the child: what came of a call."""

    number: int
    value: Any = None
    error: str = ""
    """Why nothing came of it."""
    retryable: bool = True
    """Whether another attempt may help."""
    snooze: float | None = None
    """Seconds after which the job is worth another try, where the error is that it is too soon."""


class Ready(msgspec.Struct, tag="ready"):
    """From the child: the handler file is imported."""


class BrokenHandlerFile(msgspec.Struct, tag="broken"):
    """From the child: the handler file cannot be used here, and why."""

    message: str


class LogLine(msgspec.Struct, tag="said"):
    """From the child: a log entry."""

    entry: dict[str, Any]


class ChildRequest(msgspec.Struct, tag="call"):
    """From the child: it needs something that the worker has; a reply of the same number says what."""

    number: int
    name: str
    arguments: tuple[Any, ...]


class ChildNotice(msgspec.Struct, tag="tell"):
    """From the child: something the worker should know."""

    name: str
    arguments: tuple[Any, ...]


class Done(msgspec.Struct, tag="done"):
    """From the child: the attempt is over."""

    outcome: _Verdict
    seconds: float
    records: msgspec.Raw = msgspec.Raw(b"null")
    """What it emitted, as JSON; null where it emitted nothing."""


class _Finished(msgspec.Struct, tag="completed"):
    """`Completed` as it travels: the result stays encoded."""

    result: msgspec.Raw
    jobs: tuple[NewJob, ...] = ()


_Verdict = _Finished | Failed | Snoozed | Released
FromChild = Ready | BrokenHandlerFile | LogLine | ChildRequest | ChildNotice | Done
ToChild = Setup | RunJob | ChildReply

_encoder = msgspec.json.Encoder(enc_hook=str)
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
_to_child: msgspec.json.Decoder[ToChild] = msgspec.json.Decoder(ToChild)


def pack(frame: ToChild | FromChild) -> bytes:
    """The frame as bytes, its length first."""
    body = _encoder.encode(frame)
    return _LENGTH.pack(len(body)) + body


def done(outcome: Outcome, seconds: float, emitted: object = None) -> Done:
    """The frame for an outcome, and for what was emitted on the way."""
    records = msgspec.Raw(_encoder.encode(emitted))
    if isinstance(outcome, Completed):
        result = outcome.result
        raw = result if isinstance(result, msgspec.Raw) else msgspec.Raw(_encoder.encode(result))
        return Done(_Finished(raw, outcome.jobs), seconds, records)
    return Done(outcome, seconds, records)


def outcome_in(frame: Done) -> Outcome:
    """The outcome of a frame."""
    verdict = frame.outcome
    if isinstance(verdict, _Finished):
        # A copy, or the result would keep the whole frame alive.
        return Completed(verdict.result.copy(), verdict.jobs)
    return verdict


def length_in(head: bytes) -> int:
    """How many bytes follow."""
    (length,) = _LENGTH.unpack(head)
    return int(length)


def read_from_child(body: bytes) -> FromChild:
    """What the child said. Raises `msgspec.MsgspecError` where it is no frame."""
    return _from_child.decode(body)


def read_from_parent(body: bytes) -> ToChild:
    """What the parent said."""
    return _to_child.decode(body)
