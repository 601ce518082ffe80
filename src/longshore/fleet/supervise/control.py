"""Finds and stops a fleet from another terminal, by three small files in the fleet's folder.

`fleet.lock` is locked by the supervisor of this folder's fleet while it lives. A folder has at most one fleet, because
the logs of the fleet are there too. Unlike a process id or a time stamp, a lock cannot be mistaken for that of another
process.

`fleet.json` describes the fleet. It exists while the fleet runs; a supervisor that is killed cannot remove it.

`fleet.stop` is a request to the supervisor, which polls for it. It is a file and not a signal because on some systems a
signal would kill the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from longshore.errors import UsageError
from longshore.fleet.supervise.supervisor import Stop
from longshore.system.atomic_file import write_atomically
from longshore.system.file_lock import PROBE_SECONDS, FileLock
from longshore.system.private_files import make_private

HOME = Path(".longshore")


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a running fleet in `fleet.json`."""

    pid: Annotated[int, msgspec.Meta(ge=1)]
    run: str | None
    workers: int


class FleetControl:
    """The files of the fleet of one folder."""

    def __init__(self, home: Path = HOME) -> None:
        self._home = home
        self.path = home / "fleet.json"
        self._request = home / "fleet.stop"
        self._lock = FileLock(home / "fleet.lock")

    # For the fleet

    @contextmanager
    def held(self, run: str | None, workers: int) -> Iterator[None]:
        """Hold the lock of this folder's fleet. Raise `UsageError` if another fleet holds it."""
        own = Running(pid=os.getpid(), run=run, workers=workers)
        try:
            make_private(self._home)
            taken = self._lock.acquire(PROBE_SECONDS)
        except OSError as error:
            raise _not_writable(self._lock.path, error) from error
        if not taken:
            raise self._refusal()
        try:
            try:
                self._request.unlink(missing_ok=True)
                self.path.write_bytes(msgspec.json.encode(own))
            except OSError as error:
                raise _not_writable(self.path, error) from error
            yield
        finally:
            for path in (self.path, self._request):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            self._lock.release()

    def check_free(self) -> None:
        """Raise `UsageError` if a fleet runs in this folder."""
        if self.alive():
            raise self._refusal()

    def _refusal(self) -> UsageError:
        there = self.read()
        if there is None:
            what, process = "A fleet is at work in this folder already.", ""
        else:
            workers = "1 worker" if there.workers == 1 else f"{there.workers} workers"
            run = f"run {there.run}" if there.run else "every run"
            what, process = (
                f"A fleet of {workers} is at work in this folder already, on {run}.",
                f" (process {there.pid})",
            )
        return UsageError(f"{what}\n`longshore stop` drains it{process}; a second fleet needs another folder.")

    def requested(self) -> Stop:
        """Return the last stop request to the fleet."""
        try:
            return Stop[self._request.read_text(encoding="ascii").strip()]
        except (OSError, KeyError, UnicodeDecodeError):
            return Stop.NOT

    # For `longshore stop`

    def alive(self) -> bool:
        """Return whether a fleet runs in this folder."""
        try:
            return self._lock.is_held()
        except OSError as error:
            raise UsageError(
                f"{self._lock.path} cannot be read: {error.strerror or error}. Use the account that started it."
            ) from error

    def read(self) -> Running | None:
        """Return the description of the fleet, or None if there is no readable one. The fleet may have been killed."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Running)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def request(self, stop: Stop) -> None:
        """Ask the fleet to stop."""
        try:
            write_atomically(self._request, stop.name.encode())
        except OSError as error:
            raise UsageError(
                f"{self._request} cannot be written: {error.strerror or error}. Use the account that started it."
            ) from error


def _not_writable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}. `longshore stop` needs it to find the fleet: "
        "make its folder writable."
    )
