"""Log lines: text for people, or JSON for programs, with the worker and the job on every line and secrets masked.

All entries go through one chain: those of Longshore, of a handler through `kit.log`, and of a library through
`logging`. In a child process, the end of the chain sends the entries to the parent, which logs them as its own.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec
import structlog

from longshore.job import Job
from longshore.masking import mask_text, mask_value
from longshore.observe.failure_fields import own_frames_first
from longshore.observe.live_line import LiveLine
from longshore.observe.log_file import LogFile
from longshore.system.printable import indented, printable, printable_json

Format = Literal["auto", "text", "json"]
Entry = MutableMapping[str, Any]

# The job of the current task. It is set for every attempt, so a separate variable is used, which is cheap to set.
_job: ContextVar[Job | None] = ContextVar("longshore_job", default=None)
enter_job = _job.set
"""Add this job's id and kind to every later line of the current task."""
current_job = _job.get
"""Return the job of the current attempt, or None."""

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_FIRST_KEYS = ("timestamp", "level", "message", "worker_id", "job_id", "kind", "module", "function", "line")
_PLACE_KEYS = frozenset({"module", "function", "line"})
_OWN_FRAMES = ("structlog", "logging", "longshore.observe")
_EMOJI = {
    "Worker": "🚢",
    "Looking for work": "🔎",
    "Claimed work": "📥",
    "Completed work": "✅",
    "Failed work": "❌",
    "No work available": "💤",
    "lost lease": "👋",
    "lost claim race": "🏁",
    "Queue unavailable": "🔌",
    "Progress": "📈",
    "STOPPING": "🛑",
    "Final statistics": "📊",
}
_LEVEL_EMOJI = {"debug": "🔧", "info": "💬", "warning": "🔶", "error": "❌", "critical": "🔥"}
_PICTOGRAM = "pictogram"
"""The field with which a line brings its own emoji; it is shown on terminals only."""
_LONGEST_PICTOGRAM = 8
"""Code points of the longest emoji that people combine."""
_CONTINUED = "    "
"""Begins every further line of an entry: a message with a line break must not look like two entries."""
_COLOURS = {"debug": "2", "warning": "33", "error": "31", "critical": "31;1"}


def configure(
    *,
    format: Format = "auto",  # noqa: A002
    level: str = "info",
    stream: TextIO | None = None,
    live: LiveLine | None = None,
    file: LogFile | None = None,
) -> None:
    """Send every log line of this process to `stream` (default: standard error), in the given format.

    `auto` and `text` are text, which has emoji and colour only on a terminal that can show them; `json` is a line of
    JSON each. With a `live` line of the same terminal, the lines appear above it. Each line goes to `file`, too,
    without emoji and colour; if `file` is standard error, only there. May be called again: the last call wins.
    """
    if stream is None:
        # Not the `CapturedStream` that sends prints to the log, or the log would be sent to itself.
        stream = getattr(sys.stderr, "beneath", sys.stderr)
    terminal = stream.isatty()
    if format == "json":
        render: Callable[[Entry], str] = _as_json
        plain = render
    else:
        render = _Text(terminal=terminal, fancy=terminal and "utf" in (stream.encoding or "").lower())
        plain = _Text(terminal=False, fancy=False) if terminal else render
    lock = threading.Lock()

    def write(entry: Entry) -> None:
        masked = mask_value(dict(entry))
        line = render(masked) + "\n"
        if file is not None:
            with lock:
                file.write(line if plain is render else plain(masked) + "\n")
            if file.is_stderr:
                return
        # The reader is gone or the disk is full; there is no other place to report it, and the work should go on.
        with lock, contextlib.suppress(OSError, ValueError):
            if live is not None:
                live.write(line)
                return
            stream.write(line)
            stream.flush()

    _install(write, level)


@contextlib.contextmanager
def logs_to(stream: TextIO) -> Iterator[None]:
    """Inside the block, send the log lines of this process to `stream`; afterwards as before."""
    end, threshold, before = _chain.end, _chain.threshold, structlog.get_config()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configure(format="text", stream=stream)
    try:
        yield
    finally:
        _chain.end, _chain.threshold = end, threshold
        structlog.configure(**before)
        root.handlers = handlers
        root.setLevel(level)


def configure_relay(send: Callable[[dict[str, Any]], None], *, level: str) -> None:
    """In a child process: pass every entry to `send`, which sends it to the parent's `relay`."""
    _install(lambda entry: send(mask_value(dict(entry))), level)


def relay(entry: dict[str, Any], job: Job | None) -> None:
    """Log an entry of a child process that was working on `job`, as if it were logged here."""
    if _LEVELS.get(entry.get("level", "info"), 20) < _chain.threshold:
        return
    if job is not None:
        entry = {"job_id": job.id, "kind": job.kind, **entry}
    _chain.end({**structlog.contextvars.get_contextvars(), **entry})


def say_printed(text: str, job: Job) -> bool:
    """Log a line that an attempt printed. Return False if no log is configured."""
    if not _chain.configured:
        return False
    if _chain.threshold <= _LEVELS["info"]:
        entry = {"event": text, "level": "info", "job_id": job.id, "kind": job.kind, "source": "print"}
        _chain.end(_complete(None, "", structlog.contextvars.get_contextvars() | entry))
    return True


@contextlib.contextmanager
def log_context(**values: object) -> Iterator[None]:
    """Add these values to every line logged inside the block, also by functions called and tasks started there."""
    with structlog.contextvars.bound_contextvars(**values):
        yield


def bind_worker(label: str) -> None:
    """Add the worker's id to every later line of the current task and of the tasks it starts."""
    structlog.contextvars.bind_contextvars(worker_id=label)


class _Chain:
    """The destination and level of log entries. There is one per process; `configure` changes it."""

    end: Callable[[Entry], None]
    threshold: int

    def __init__(self) -> None:
        self.end = self._discard
        self.threshold = 20

    @property
    def configured(self) -> bool:
        return self.end != self._discard

    @staticmethod
    def _discard(_entry: Entry) -> None: ...


_chain = _Chain()


def _install(end: Callable[[Entry], None], level: str) -> None:
    _chain.end = end
    _chain.threshold = _LEVELS[level.lower()]
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.contextvars.merge_contextvars,
            _complete,
            _finish,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_chain.threshold),
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Bridge)]
    root.addHandler(_Bridge())
    root.setLevel(_chain.threshold)


def _complete(_logger: object, _method: str, entry: Entry) -> Entry:
    """Add time, place, job and exception to an entry, under their standard names."""
    entry["message"] = str(entry.pop("event", ""))
    entry.setdefault("timestamp", _timestamp())
    if (job := _job.get()) is not None:
        entry.setdefault("job_id", job.id)
        entry.setdefault("kind", job.kind)
    if "module" not in entry:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OWN_FRAMES):
            frame = frame.f_back
        entry["module"] = frame.f_globals.get("__name__", "")
        entry["function"] = frame.f_code.co_name
        entry["line"] = frame.f_lineno
    error = entry.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    elif isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        entry["exception"] = "".join(traceback.format_exception(error)).rstrip()
    return entry


def _finish(_logger: object, _method: str, entry: Entry) -> str:
    _chain.end(entry)
    return ""


class _Bridge(logging.Handler):
    """A handler of `logging` that passes the records of libraries to the chain."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            entry: Entry = {
                "event": record.getMessage(),
                "level": record.levelname.lower(),
                "timestamp": _timestamp(record.created),
                "module": record.name if record.name != "root" else record.module,
                "function": record.funcName,
                "line": record.lineno,
                "exc_info": record.exc_info,
                **structlog.contextvars.get_contextvars(),
            }
            _chain.end(_complete(None, "", entry))
        except Exception:  # noqa: BLE001  as the handlers of the standard library do
            self.handleError(record)


def _timestamp(instant: float | None = None) -> str:
    moment = datetime.now(UTC) if instant is None else datetime.fromtimestamp(instant, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ordered(entry: Entry) -> dict[str, Any]:
    first = {key: entry[key] for key in _FIRST_KEYS if key in entry}
    return first | {key: value for key, value in entry.items() if key not in first and key != _PICTOGRAM}


def _as_json(entry: Entry) -> str:
    return printable_json(msgspec.json.encode(_ordered(entry), enc_hook=str).decode())


class _Text:
    """Formats an entry as one line for people: time, message and fields, without the place in the code.

    On a worker's own terminal, its id is shown once: repeated on every line, it would only make the lines wrap.
    """

    def __init__(self, *, terminal: bool, fancy: bool) -> None:
        self._terminal = terminal
        self._fancy = fancy
        self._worker: str | None = None

    def __call__(self, entry: Entry) -> str:
        entry = dict(entry)
        level, message = entry.pop("level", "info"), indented(entry.pop("message", ""), _CONTINUED)
        instant = datetime.fromisoformat(entry.pop("timestamp")).astimezone().strftime("%H:%M:%S")
        exception = entry.pop("exception", None)
        if isinstance(exception, str):
            exception = own_frames_first(exception)
        if level == "warning" and message.startswith("Failed work"):
            exception = None  # the job is retried, or the line sums up many; the line has the error and its place
        if self._terminal and self._is_known(entry.get("worker_id"), message):
            del entry["worker_id"]
        pictogram = printable(str(entry.pop(_PICTOGRAM, "")))[:_LONGEST_PICTOGRAM] or self._emoji(message, level)
        pairs = [f"{printable(key)}={_shown(value)}" for key, value in entry.items() if key not in _PLACE_KEYS]
        if self._fancy:
            colour = _COLOURS.get(level)
            coloured = f"\x1b[{colour}m{message}\x1b[0m" if colour else message
            line = f"\x1b[2m{instant}\x1b[0m {pictogram} {coloured}"
            line += f"  \x1b[2m{' '.join(pairs)}\x1b[0m" if pairs else ""
        else:
            mark = "" if level == "info" else f"{level.upper()} "
            line = " ".join([instant, f"{mark}{message}", *pairs])
        return line if exception is None else f"{line}\n{_CONTINUED}{indented(mask_text(exception), _CONTINUED)}"

    def _is_known(self, worker: str | None, message: str) -> bool:
        """Return whether this is the worker of this terminal and its id was already shown."""
        if worker is None:
            return False
        if self._worker is None:
            self._worker = worker
            return worker in message
        return worker == self._worker

    @staticmethod
    def _emoji(message: str, level: str) -> str:
        if _LEVELS.get(level, 20) <= 20:
            for start, emoji in _EMOJI.items():
                if message.startswith(start):
                    return emoji
        return _LEVEL_EMOJI.get(level, "💬")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    text = printable(value if isinstance(value, str) else str(value))
    return f'"{text}"' if not text or any(c.isspace() for c in text) else text
