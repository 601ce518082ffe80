"""Turn the prints of async handlers into log lines of their job.

Async handlers share a process, so the standard streams cannot tell which one printed; the attempt's context variable
can. Outside an attempt, prints go to the original stream.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from longshore.job import Job
from longshore.observe.logs import current_job, say_printed

_STREAMS = ("stdout", "stderr")


class CapturedStream:
    """A standard stream whose complete lines go to the log during an attempt, and to the original stream otherwise."""

    def __init__(self, beneath: Any) -> None:
        self.beneath = beneath
        """The original stream."""
        self._unfinished: dict[str, str] = {}
        """The unfinished line of each job."""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Write text, as any stream does."""
        job = current_job()
        if job is None or not isinstance(text, str):
            return int(self.beneath.write(text))
        with self._lock:
            *lines, rest = (self._unfinished.pop(job.id, "") + text).split("\n")
            if rest:
                self._unfinished[job.id] = rest
        for line in lines:
            self._log(line, job)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def finish(self, job: Job) -> None:
        """Log the unfinished line of a job whose attempt ended."""
        # Checked without the lock: this is called after every attempt, and almost always finds nothing.
        if self._unfinished and (line := self._unfinished.pop(job.id, "")):
            self._log(line, job)

    def _log(self, line: str, job: Job) -> None:
        if (text := line.rstrip()) and not say_printed(text, job):
            self.beneath.write(f"{line}\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


_active = 0
_installed: dict[str, CapturedStream] = {}


@contextlib.contextmanager
def prints_to_log() -> Iterator[None]:
    """Inside the block, send the prints of an attempt to the log, with its job."""
    global _active  # noqa: PLW0603  the standard streams are global to the process, and so is this count
    if not _active:
        for name in _STREAMS:
            if (stream := getattr(sys, name)) is not None:  # a process without a console has none
                _installed[name] = CapturedStream(stream)
                setattr(sys, name, _installed[name])
    _active += 1
    try:
        yield
    finally:
        _active -= 1
        if not _active:
            for name, captured in _installed.items():
                if getattr(sys, name) is captured:  # a stream that other code put there stays
                    setattr(sys, name, captured.beneath)
            _installed.clear()


def finish_prints(job: Job) -> None:
    """Log the unfinished lines of a job whose attempt ended."""
    for captured in _installed.values():
        captured.finish(job)
