"""What async handlers print becomes log lines of their job.

They share a process, so the standard streams alone cannot tell who printed; the context of the attempt can. Outside an
attempt everything goes where it always went.
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


class Prints:
    """A standard stream that sends whole lines to the log while an attempt is under way, and is itself otherwise."""

    def __init__(self, beneath: Any) -> None:
        self.beneath = beneath
        """The stream whose place it takes."""
        self._begun: dict[str, str] = {}
        """By job: a line that is not finished yet."""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Take text, as any stream does."""
        job = current_job()
        if job is None or not isinstance(text, str):
            return int(self.beneath.write(text))
        with self._lock:
            *lines, rest = (self._begun.pop(job.id, "") + text).split("\n")
            if rest:
                self._begun[job.id] = rest
        for line in lines:
            self._say(line, job)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Take many pieces of text."""
        for line in lines:
            self.write(line)

    def finish(self, job: Job) -> None:
        """The attempt is over: say the line it began and did not end."""
        # Looked at without the lock, for it is asked after every attempt and nearly always in vain.
        if self._begun and (line := self._begun.pop(job.id, "")):
            self._say(line, job)

    def _say(self, line: str, job: Job) -> None:
        if (text := line.rstrip()) and not say_printed(text, job):
            self.beneath.write(f"{line}\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


_inside = 0
_installed: dict[str, Prints] = {}


@contextlib.contextmanager
def prints_to_log() -> Iterator[None]:
    """Inside the block, what is printed in the context of an attempt is said in the log, with its job."""
    global _inside  # noqa: PLW0603  the standard streams belong to the process, and so does this
    if not _inside:
        for name in _STREAMS:
            if (stream := getattr(sys, name)) is not None:  # a process without a console has none
                _installed[name] = Prints(stream)
                setattr(sys, name, _installed[name])
    _inside += 1
    try:
        yield
    finally:
        _inside -= 1
        if not _inside:
            for name, prints in _installed.items():
                if getattr(sys, name) is prints:  # whatever somebody else put there stays
                    setattr(sys, name, prints.beneath)
            _installed.clear()


def finish_prints(job: Job) -> None:
    """An attempt is over: say the lines it began and did not end."""
    for prints in _installed.values():
        prints.finish(job)
