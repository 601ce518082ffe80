"""Every error of Longshore, in one tree.

    LongshoreError
    ├── UsageError                 the request is wrong and cannot be carried out (exit code 2)
    │   ├── SettingsError          a setting is wrong, or two of them disagree
    │   ├── UnknownSchemeError     no medium has the scheme of this queue URL
    │   ├── HandlerFileError       the handler file is missing, broken, or has no handlers
    │   ├── UnknownKindError       a job's kind has no handler
    │   ├── InputFileError         a file of URLs or jobs cannot be read
    │   ├── PublishedCodeError     the code of a queue is missing, damaged or not accepted
    │   └── NotFoundError          no such job or run
    ├── QueueError                 the queue cannot do it (exit code 1)
    │   ├── PassingQueueError      the trouble may pass by itself (retryable)
    │   │   ├── QueueUnavailableError  it is busy, restarting or unreachable now
    │   │   │   └── QueueTimeoutError  it was reached, and the call took longer than its limit
    │   │   ├── ReadOnlyQueueError     it cannot be written to: a standby during a failover, or a lack of permission
    │   │   ├── QueueFullError         the disk under it is full
    │   │   └── MissingQueueError      it is not at its address: renamed, unmounted, or a wrong address
    │   ├── ForeignQueueError      it exists and is not a Longshore queue
    │   └── NewerSchemaError       it was made by a newer Longshore
    └── WorkerError                an attempt failed
        ├── ValidationError        the job's parameters are wrong (never retried)
        ├── ConnectionFailedError  the server did not answer (retryable)
        ├── ProcessingError        the work itself failed (retryable, unless the handler says otherwise)
        ├── TimedOutError          it exceeded its timeout (retryable)
        ├── CrashedError           the process that did the work died (retryable)
        └── SnoozeError            the job is postponed, and no attempt is counted

Each class says whether a retry may help (`retryable`) and which exit code the command line returns (`exit_code`).
Messages name the cause and the fix in the user's vocabulary.
"""

from __future__ import annotations

import builtins
import re
import traceback as traceback_module
from datetime import timedelta
from typing import ClassVar

import msgspec


class LongshoreError(Exception):
    """The root of all errors that Longshore raises on purpose."""

    retryable: bool = False
    exit_code: ClassVar[int] = 1


class UsageError(LongshoreError):
    """The request is wrong and cannot be carried out."""

    exit_code = 2


class SettingsError(UsageError):
    """A setting is wrong, or two settings disagree."""


class UnknownSchemeError(UsageError):
    """No medium has the scheme of this queue URL."""


class HandlerFileError(UsageError):
    """The handler file is missing, cannot be imported, or declares no handlers."""


class UnknownKindError(UsageError):
    """A job's kind has no handler."""


class InputFileError(UsageError):
    """A file of URLs or jobs cannot be read."""


class PublishedCodeError(UsageError):
    """The code that a queue carries is missing, damaged, not accepted, or cannot be run here."""


class NotFoundError(UsageError):
    """There is no such job or run."""


class QueueError(LongshoreError):
    """The queue cannot carry out the operation."""


class PassingQueueError(QueueError):
    """The same call may succeed later, without a change on this machine.

    A worker that has used the queue before waits: for a `QueueUnavailableError` without a limit, for the others, which
    may as well need a person, as long as its leases last.
    """

    retryable = True


class QueueUnavailableError(PassingQueueError):
    """The queue does not answer now."""


class QueueTimeoutError(QueueUnavailableError):
    """The call took longer than its limit: the queue is slow now, or the call is too heavy."""


class ReadOnlyQueueError(PassingQueueError):
    """The queue cannot be written to."""


class QueueFullError(PassingQueueError):
    """The disk under the queue is full."""


class MissingQueueError(PassingQueueError):
    """There is nothing at the address of the queue."""


class ForeignQueueError(QueueError):
    """The file, folder or database exists and is not a Longshore queue."""


class NewerSchemaError(QueueError):
    """The queue was written by a newer Longshore than this one."""


class WorkerError(LongshoreError):
    """An attempt at a job failed.

    `retryable` is the class default; a handler can override it: `raise ProcessingError("gone", retryable=False)`.
    """

    error_type: ClassVar[str] = "unknown"
    retryable = True
    skips_links: ClassVar[bool] = False
    """Whether a job that another job has found is skipped, and not failed, when its handler raises this."""

    def __init__(self, message: str = "", *, retryable: bool | None = None) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable


class ValidationError(WorkerError):
    """The job's parameters are wrong. Never retried, because the same parameters fail again."""

    error_type = "validation"
    retryable = False


class ConnectionFailedError(WorkerError):
    """The server did not answer, or closed the connection."""

    error_type = "connection"


class ProcessingError(WorkerError):
    """The work itself failed."""

    error_type = "processing"


class TimedOutError(WorkerError):
    """The attempt exceeded its timeout and was ended."""

    error_type = "timeout"


class CrashedError(WorkerError):
    """The process that did the work died."""

    error_type = "crash"


class SnoozeError(WorkerError):
    """A postponement: the job is pending again after `seconds` seconds, and no attempt is counted.

    Raising it has the effect of returning `Snooze`, from any depth of the handler's code.
    """

    def __init__(self, message: str, seconds: float) -> None:
        if not 0 <= seconds <= _LONGEST_SNOOZE:
            raise ValueError(f"SnoozeError(..., {seconds!r}): give it seconds from 0 to {_LONGEST_SNOOZE:,}, 100 years")
        super().__init__(message)
        self.snooze = timedelta(seconds=seconds)

    def __reduce__(self) -> tuple[type[SnoozeError], tuple[str, float]]:
        return SnoozeError, (str(self), self.snooze.total_seconds())


_LONGEST_SNOOZE = 100 * 365 * 24 * 3600


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of an error: plain text that can be stored, sent and shown."""

    error_type: str
    """`validation connection processing timeout crash` or `unknown`."""
    message: str
    exception: str = ""
    """The exception's class, by its full name."""
    retryable: bool = True
    traceback: str = ""
    handler_version: str = ""
    """A short fingerprint of the handler file that made the attempt; empty if it is not known."""

    @property
    def exception_name(self) -> str:
        """The exception's class without its module."""
        return short_name(self.exception)

    @property
    def label(self) -> str:
        """The common label of failures with the same type and cause: `timeout (TimedOutError)`."""
        return f"{self.error_type} ({self.cause})" if self.cause else self.error_type

    @property
    def cause(self) -> str:
        """The exception's class without its module; with a status, if it has one: `StatusError: 404 Not Found`."""
        name = self.exception_name
        status = _STATUS.search(self.message) if name == "StatusError" else None
        return name if status is None else f"{name}: {status[1]}"

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the failure of any exception, with secrets masked: queues are read by many, and git pushes them.

        The error type of foreign exceptions depends on their class.
        """
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        expected = isinstance(error, ValidationError | TimedOutError | CrashedError)
        return cls(
            error_type=_error_type(error),
            message=_storable(_message(error) or kind.__name__, _LONGEST_MESSAGE),
            exception=_storable(name, _LONGEST_MESSAGE),
            retryable=error.retryable if isinstance(error, LongshoreError) else True,
            traceback="" if expected else _storable(_traceback(error), _LONGEST_TRACEBACK),
        )


def short_name(exception: str) -> str:
    """Return the name of an exception without that of its module."""
    return exception.rpartition(".")[2]


_STATUS = re.compile(r" answered (\d{3}(?: [A-Za-z' -]{1,40})?)\Z")
_LONGEST_MESSAGE = 10_000
_LONGEST_TRACEBACK = 50_000


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as fault:  # noqa: BLE001  a broken __str__ must not hide the error itself
        return f"{type(error).__name__} (it cannot be shown: its __str__ raised {type(fault).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback_module.format_exception(error))
    except Exception as fault:  # noqa: BLE001  as above
        return f"The traceback cannot be shown: {type(fault).__name__}"


def _storable(text: str, longest: int) -> str:
    """Return a text that any medium can store and everyone may read: valid Unicode without secrets, of limited length.

    Only the end of a longer text is kept.
    """
    from longshore.masking import mask_text

    # Masked before it is cut, or else a secret could stay whose name was cut off.
    text = mask_text(text[-4 * longest :])
    if len(text) > longest:
        text = f"… {text[-longest:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _error_type(error: BaseException) -> str:
    if isinstance(error, WorkerError):
        return error.error_type
    # Compared by name, so that the core recognizes HTTP errors without importing an HTTP library.
    ancestry = {f"{c.__module__.partition('.')[0]}.{c.__name__}" for c in type(error).__mro__}
    if isinstance(error, builtins.TimeoutError):
        return TimedOutError.error_type
    if isinstance(error, builtins.ConnectionError) or ancestry & {
        "aiohttp.ClientError",
        "urllib.URLError",
        "socket.gaierror",
    }:
        return ConnectionFailedError.error_type
    return WorkerError.error_type
