"""Health files: each worker, fleet and server writes how it is, so that `longshore health` can tell it for the machine.

A file is written every few seconds and removed at the end. One that stays belongs to a process that was killed; one
that grows old, to a process that hangs or was stopped. The processes of one machine share a clock.

Machines and containers may share a data folder. Process ids count for one of them only, so each reads its own files.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
import psutil

from longshore.observe.health_report import SILENT_SECONDS, HealthReport
from longshore.system.atomic_file import write_atomically
from longshore.system.private_files import make_private
from longshore.system.processes import process_id_scope

_EVERY_SECONDS = 5.0
_FORGOTTEN_SECONDS = 24 * 3600.0
_FOLDER = "health"


class HasHealth(Protocol):
    """A process that can tell how it is."""

    def health(self) -> HealthReport:
        """Return the health of the process."""


class HealthFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a health file."""

    at: float
    """When it was written, in seconds since 1970."""
    began: float
    """When the process was created: its id may belong to another one by now."""
    report: HealthReport
    scope: str = ""
    """The machine or container for which the process id counts."""


@asynccontextmanager
async def told(process: HasHealth, data_folder: Path) -> AsyncIterator[None]:
    """Within the block, write the health of this process every few seconds. A full disk raises no error."""
    report = process.health()
    scope = process_id_scope()
    mark = hashlib.sha256(scope.encode()).hexdigest()[:8]
    path = data_folder / _FOLDER / f"{report.process}-{mark}-{report.pid}.json"
    began = psutil.Process().create_time()

    def write() -> None:
        with suppress(OSError):
            make_private(path.parent)
            content = HealthFile(at=time.time(), began=began, report=process.health(), scope=scope)
            write_atomically(path, msgspec.json.encode(content), private=True)

    async def keep() -> None:
        while True:
            write()
            await asyncio.sleep(_EVERY_SECONDS)

    _remove_old(path.parent)
    task = asyncio.create_task(keep())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read_health(data_folder: Path) -> list[HealthReport]:
    """Return the health of every process of this machine that has a file there, as far as others can know it."""
    files = [_read(path) for path in sorted((data_folder / _FOLDER).glob("*.json"))]
    return [_judged(each) for each in files if each is not None and _is_near(each)]


def _judged(file: HealthFile) -> HealthReport:
    report = file.report
    if not _lives(file):
        trouble = f"process {report.pid} is gone, and did not end as it should"
    elif (age := time.time() - file.at) > SILENT_SECONDS:
        trouble = f"no sign of life for {age:.0f} s: it hangs or was stopped"
    else:
        return report
    detail = "; ".join(filter(None, (trouble, report.detail)))
    return msgspec.structs.replace(report, status="unhealthy", ready=False, detail=detail)


def _is_near(file: HealthFile) -> bool:
    return file.scope in ("", process_id_scope())


def _lives(file: HealthFile) -> bool:
    try:
        return abs(psutil.Process(file.report.pid).create_time() - file.began) < 1.0
    except psutil.Error:
        return False


def _remove_old(folder: Path) -> None:
    """Remove the files of processes that are gone: a process that starts in this folder takes their place.

    A file of another machine or container is removed when it is a day old.
    """
    for path in folder.glob("*.json"):
        each = _read(path)
        if each is None or (not _lives(each) if _is_near(each) else time.time() - each.at > _FORGOTTEN_SECONDS):
            with suppress(OSError):
                path.unlink()


def _read(path: Path) -> HealthFile | None:
    """Return the content; None if the file was just removed, or another version wrote it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=HealthFile)
    except (OSError, msgspec.DecodeError):
        return None
