"""How a fleet is found, and stopped, from another terminal: three small files in its folder.

`fleet.lock` is held by the process that supervises the fleet of this folder, as long as it lives: there is one fleet a
folder, for its logs are there too. Neither a clock that is set nor a number that another process has by now can deceive
whoever looks.

`fleet.json` says what fleet that is; it is there while the fleet is. A process that is killed cannot remove it.

`fleet.stop` is a request to that process, which looks for it again and again. It is a file and not a signal because on
some systems a signal would kill.
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

HOME = Path(".longshore")


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet, as its file says."""

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
        """Be the fleet of this folder. `UsageError` where there is one."""
        own = Running(pid=os.getpid(), run=run, workers=workers)
        try:
            self._home.mkdir(parents=True, exist_ok=True)
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
        """`UsageError` where this folder has a fleet that runs."""
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
        return UsageError(f"{what}\n`longshore stop` drains it{process}; a second one needs a folder of its own.")

    def requested(self) -> Stop:
        """What has been asked of the fleet so far."""
        try:
            return Stop[self._request.read_text(encoding="ascii").strip()]
        except (OSError, KeyError, UnicodeDecodeError):
            return Stop.NOT

    # For whoever wants it to stop

    def alive(self) -> bool:
        """Whether a fleet runs in this folder."""
        try:
            return self._lock.is_held()
        except OSError as error:
            raise UsageError(
                f"{self._lock.path} cannot be read: {error.strerror or error}. Do it as who started the fleet."
            ) from error

    def read(self) -> Running | None:
        """What the file says; None where there is none that makes sense. It may tell of a fleet that was killed."""
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
                f"{self._request} cannot be written: {error.strerror or error}. Do it as who started the fleet."
            ) from error


def _not_writable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}. `longshore stop` finds the fleet by it: "
        "make its folder writable."
    )
