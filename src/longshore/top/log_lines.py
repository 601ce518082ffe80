"""What the workers' logs say about one job, where they are on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from longshore.top.find_jobs import Detail

LINES = 40
_FILES = 200
_TAIL = 2 * 2**20
"""Bytes at the end of each file that are searched."""
_BEGINS = re.compile(rb"\d\d:\d\d:\d\d |\{")
"""How an entry begins, as text or as JSON; lines that do not belong to the entry before them."""


class LogPart(msgspec.Struct, frozen=True):
    """Lines of one log."""

    file: str
    lines: tuple[str, ...]


def logs_of(folder: Path, run: str) -> list[Path]:
    """The logs of workers that may have worked on a run, started from this folder; the newest last.

    A fleet writes into `logs`, a run that is worked on by one command into `.longshore/logs/RUN`.
    """
    own = [folder / "logs"]
    if run and Path(run).name == run:
        own.append(folder / ".longshore" / "logs" / run)
    found: list[tuple[float, Path]] = []
    for place in own:
        for path in place.glob("worker_*.log"):
            try:
                found.append((path.stat().st_mtime, path))
            except OSError:
                continue  # removed meanwhile
    return [path for _, path in sorted(found)[-_FILES:]]


def log_parts(folder: Path, detail: Detail) -> tuple[LogPart, ...]:
    """The last lines about a job, file by file. Reads files: not for the event loop."""
    job = detail.job
    workers = {attempt.worker for attempt in detail.history} | ({job.worker} if job.worker else set())
    parts = []
    for path in logs_of(folder, job.run):
        # A fleet's logs go on from queue to queue, each of which has a job of this number.
        meant = frozenset[str]() if path.parent.name == job.run else frozenset(workers)
        lines = _search(path, job.id, job.kind, meant)[-LINES:]
        if lines:
            shown = path.relative_to(folder) if path.is_relative_to(folder) else path
            parts.append(LogPart(str(shown), tuple(lines)))
    return tuple(parts)


def _search(path: Path, job_id: str, kind: str, workers: frozenset[str]) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _TAIL, 0))
            text = file.read()
    except OSError:
        return []  # a log that cannot be read says nothing
    own = _mark("job_id", [job_id])
    of_kind = _mark("kind", [kind])
    by = _mark("worker_id", workers) if workers else None
    lines: list[str] = []
    for entry in _entries(text, _words(job_id)):
        head = entry[0]
        if own.search(head) and of_kind.search(head) and (by is None or by.search(head)):
            lines += [line.decode("utf-8", "replace") for line in entry]
    return lines


def _entries(text: bytes, words: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Entries, each with the lines that follow it, that hold one of these words in their first line."""
    searched = re.compile(b"|".join(map(re.escape, words)))
    at = 0
    while found := searched.search(text, at):
        begin = text.rfind(b"\n", 0, found.start()) + 1
        lines = []
        while True:
            end = text.find(b"\n", begin)
            end = len(text) if end < 0 else end
            lines.append(text[begin:end])
            begin = at = end + 1
            if begin >= len(text) or _BEGINS.match(text, begin):
                break
        yield lines


def _words(job_id: str) -> tuple[bytes, bytes]:
    return f"job_id={job_id}".encode(), f'"job_id":"{job_id}"'.encode()


def _mark(name: str, values: Iterable[str]) -> re.Pattern[bytes]:
    """Matches a first line in which one of these values has this name."""
    either = "|".join(re.escape(value) for value in values)
    return re.compile(rf'(?:^| ){name}="?(?:{either})"?(?= |$)|"{name}":"(?:{either})"'.encode())
