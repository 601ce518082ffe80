"""Find the log lines about one job in the logs of the workers on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from longshore.runs.submit.submission import is_run_id
from longshore.top.find_jobs import Detail

LINES = 40
_FILES = 200
_TAIL = 2 * 2**20
"""Bytes at the end of each file that are searched."""
_BEGINS = re.compile(rb"\d\d:\d\d:\d\d |\{")
"""The beginning of an entry, as text or as JSON; other lines belong to the entry before them."""


class LogPart(msgspec.Struct, frozen=True):
    """Lines of one log."""

    file: str
    lines: tuple[str, ...]


def logs_of(folder: Path, run: str) -> list[Path]:
    """Return the logs of workers that were started in this folder and may have worked on a run; the newest last.

    A fleet writes to `logs`, and `longshore run` to `.longshore/logs/RUN`.
    """
    folders = [folder / "logs"]
    if is_run_id(run):
        folders.append(folder / ".longshore" / "logs" / run)
    found: list[tuple[float, Path]] = []
    for log_folder in folders:
        for path in log_folder.glob("worker_*.log"):
            try:
                found.append((path.stat().st_mtime, path))
            except OSError:
                continue  # removed meanwhile
    return [path for _, path in sorted(found)[-_FILES:]]


def log_parts(folder: Path, detail: Detail) -> tuple[LogPart, ...]:
    """Return the last lines about a job, by file. It reads files, so do not call it on the event loop."""
    job = detail.job
    workers = {attempt.worker for attempt in detail.history} | ({job.worker} if job.worker else set())
    parts = []
    for path in logs_of(folder, job.run):
        # A fleet's log may cover several queues, each with a job of this id: match the worker, too.
        of_workers = frozenset[str]() if path.parent.name == job.run else frozenset(workers)
        lines = _search(path, job.id, job.kind, of_workers)[-LINES:]
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
        return []  # skip a log that cannot be read
    of_job = _field("job_id", [job_id])
    of_kind = _field("kind", [kind])
    of_worker = _field("worker_id", workers) if workers else None
    lines: list[str] = []
    for entry in _entries(text, _words(job_id)):
        head = entry[0]
        if of_job.search(head) and of_kind.search(head) and (of_worker is None or of_worker.search(head)):
            lines += [line.decode("utf-8", "replace") for line in entry]
    return lines


def _entries(text: bytes, words: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the entries whose first line contains one of these words, each with its further lines."""
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


def _field(name: str, values: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern for first lines in which the field `name` has one of these values."""
    either = "|".join(re.escape(value) for value in values)
    return re.compile(rf'(?:^| ){name}="?(?:{either})"?(?= |$)|"{name}":"(?:{either})"'.encode())
