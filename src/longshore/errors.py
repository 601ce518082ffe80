"""Every error of Longshore, in one tree.

    LongshoreError
    ├── UsageError                 what was asked cannot be done as asked (exit code 2)
    │   ├── SettingsError          a setting is wrong, or two of them disagree
    │   ├── UnknownSchemeError     no medium answers to this queue URL
    │   ├── HandlerFileError       the handler file is missing, broken, or has no handlers
    │   ├── UnknownKindError       a job's kind has no handler
    │   ├── InputFileError         a file of URLs or jobs cannot be read
    │   └── NotFoundError          no such job or run
    ├── QueueError                 the queue cannot do it (exit code 1)
    │   ├── QueueUnavailableError  not now: busy, restarting, out of reach (retryable)
    │   ├── ForeignQueueError      it is there, and it is not a Longshore queue
    │   ├── NewerSchemaError       it was made by a newer Longshore
    │   ├── ReadOnlyQueueError     it cannot be written to
    │   └── QueueFullError         the disk under it is full
    └── WorkerError                an attempt failed
        ├── ValidationError        the job's parameters are wrong; trying again cannot help
        ├── ConnectionFailedError  the other side did not answer (retryable)
        ├── ProcessingError        the work itself went wrong (retryable unless said otherwise)
        ├── TimedOutError          it took longer than it may (retryable)
        ├── CrashedError           the process that did the work died (retryable)
        └── SnoozeError            not now: the job comes back later, and no attempt is counted

Each class knows whether trying again may help (`retryable`) and how the command line ends (`exit_code`).
Messages name the cause and the fix in the user's words.
"""

from __future__ import annotations

import builtins
import traceback as traceback_module
from datetime import timedelta
from typing import ClassVar

import msgspec


class LongshoreError(Exception):
    """The root: everything Longshore raises on purpose."""

    retryable: bool = False
    exit_code: ClassVar[int] = 1


class UsageError(LongshoreError):
    """What was asked cannot be done as asked."""

    exit_code = 2


class SettingsError(UsageError):
    """A setting is wrong, or two settings disagree."""


class UnknownSchemeError(UsageError):
    """No medium answers to this queue URL."""


class HandlerFileError(UsageError):
    """The handler file is missing, cannot be imported, or declares no handlers."""


class UnknownKindError(UsageError):
    """A job's kind has no handler."""


class InputFileError(UsageError):
    """A file of URLs or jobs cannot be read."""


class NotFoundError(UsageError):
    """There is no such job or run."""


class QueueError(LongshoreError):
    """The queue cannot do what was asked of it."""


class QueueUnavailableError(QueueError):
    """The queue does not answer now; the same call may succeed later."""

    retryable = True


class ForeignQueueError(QueueError):
    """Something is there, and it is not a Longshore queue."""


class NewerSchemaError(QueueError):
    """The queue was written by a newer Longshore than this one."""


class ReadOnlyQueueError(QueueError):
    """The queue cannot be written to."""


class QueueFullError(QueueError):
    """The disk under the queue is full."""


class WorkerError(LongshoreError):
    """An attempt at a job failed.

    `retryable` is the class's opinion; a handler overrules it: `raise ProcessingError("gone", retryable=False)`.
    """

    error_type: ClassVar[str] = "unknown"
    retryable = True

    def __init__(self, message: str = "", *, retryable: bool | None = None) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable


class ValidationError(WorkerError):
    """The job's parameters are wrong. Never retried: the same parameters fail the same way."""

    error_type = "validation"
    retryable = False


class ConnectionFailedError(WorkerError):
    """The other side did not answer, or hung up."""

    error_type = "connection"


class ProcessingError(WorkerError):
    """The work itself went wrong."""

    error_type = "processing"


class TimedOutError(WorkerError):
    """The attempt took longer than it may and was ended."""

    error_type = "timeout"


class CrashedError(WorkerError):
    """The process that did the work died."""

    error_type = "crash"


class SnoozeError(WorkerError):
    """Not now: the job is pending again after so many seconds, and no attempt is counted.

    To raise it is to return `Snooze`, from wherever it is found out.
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
    """What is kept of an error: plain text that can be stored, sent and shown."""

    error_type: str
    """`validation connection processing timeout crash` or `unknown`."""
    message: str
    exception: str = ""
    """The exception's class, by its full name."""
    retryable: bool = True
    traceback: str = ""

    @property
    def exception_name(self) -> str:
        """The exception's class without its module."""
        return short_name(self.exception)

    @property
    def label(self) -> str:
        """What failures of one type and exception are called: `timeout (TimedOutError)`."""
        return f"{self.error_type} ({self.exception_name})" if self.exception_name else self.error_type

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe any exception. Those that are not Longshore's are sorted by what they are."""
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        expected = isinstance(error, ValidationError | TimedOutError | CrashedError)
        return cls(
            error_type=_error_type(error),
            message=_storable(_words(error) or kind.__name__, _LONGEST_MESSAGE),
            exception=_storable(name, _LONGEST_MESSAGE),
            retryable=error.retryable if isinstance(error, LongshoreError) else True,
            traceback="" if expected else _storable(_traceback(error), _LONGEST_TRACEBACK),
        )


def short_name(exception: str) -> str:
    """Return the name of an exception without that of its module."""
    return exception.rpartition(".")[2]


_LONGEST_MESSAGE = 10_000
_LONGEST_TRACEBACK = 50_000


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as fault:  # noqa: BLE001  an error that cannot say what it is must not cost more than itself
        return f"{type(error).__name__} (it cannot be shown: its __str__ raised {type(fault).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback_module.format_exception(error))
    except Exception as fault:  # noqa: BLE001  as above
        return f"The traceback cannot be shown: {type(fault).__name__}"


def _storable(text: str, longest: int) -> str:
    """Text that any medium can keep: valid Unicode, of bounded length; of a long one, its end."""
    if len(text) > longest:
        text = f"… {text[-longest:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _error_type(error: BaseException) -> str:
    if isinstance(error, WorkerError):
        return error.error_type
    # Names stand in for classes here, so that the core needs no HTTP library to know an HTTP error.
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
