"""How a fleet is found, and stopped, from another terminal: two small files in its folder.

`fleet.json` says which process supervises the fleet of this folder; it is there while the fleet is. A process that is
killed cannot remove it, so whoever reads it compares it with the processes that live: a number alone may be somebody
else's by now, the moment a process began may not. There is one fleet a folder, for its logs are there too.

`fleet.stop` is a request to that process, which looks for it again and again. It is a file and not a signal because on
some systems a signal would kill.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from longshore.errors import UsageError
from longshore.fleet.supervisor import Stop

HOME = Path(".longshore")
_SAME_MOMENT = 2.0
"""Seconds: how exactly systems say when a process began."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet, as its file says."""

    pid: int
    began: float
    """When its process began, in seconds since 1970."""
    run: str | None
    workers: int

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        try:
            process = psutil.Process(self.pid)
            return abs(process.create_time() - self.began) < _SAME_MOMENT and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class Control:
    """The files of the fleet of one folder."""

    def __init__(self, home: Path = HOME) -> None:
        self._home = home
        self.path = home / "fleet.json"
        self._request = home / "fleet.stop"

    # For the fleet

    @contextmanager
    def held(self, run: str | None, workers: int) -> Iterator[None]:
        """Be the fleet of this folder. `UsageError` where there is one."""
        self.check_free()
        own = Running(pid=os.getpid(), began=psutil.Process().create_time(), run=run, workers=workers)
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            self._request.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)
            with self.path.open("xb") as file:
                file.write(msgspec.json.encode(own))
        except FileExistsError:
            raise UsageError("Another fleet was started in this folder at this very moment. Only one can be.") from None
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be written: {error.strerror or error}. `longshore stop` finds the fleet by it: "
                "make its folder writable."
            ) from error
        try:
            yield
        finally:
            for path in (self.path, self._request):
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def check_free(self) -> None:
        """`UsageError` where this folder has a fleet that runs."""
        if (there := self.read()) is not None and there.alive:
            what = f"run {there.run}" if there.run else "every run"
            workers = "1 worker" if there.workers == 1 else f"{there.workers} workers"
            raise UsageError(
                f"A fleet of {workers} is at work in this folder already, on {what}.\n"
                f"`longshore stop` drains it (process {there.pid}); a second one needs a folder of its own."
            )

    def requested(self) -> Stop:
        """What has been asked of the fleet so far."""
        try:
            return Stop[self._request.read_text(encoding="ascii").strip()]
        except (OSError, KeyError, UnicodeDecodeError):
            return Stop.NOT

    # For whoever wants it to stop

    def read(self) -> Running | None:
        """What the file says; None where there is none that can be read."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Running)
        except (OSError, msgspec.DecodeError):
            return None

    def request(self, stop: Stop) -> None:
        """Ask the fleet to stop."""
        part = self._request.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_text(stop.name, encoding="ascii")
            part.replace(self._request)
        except OSError as error:
            raise UsageError(
                f"{self._request} cannot be written: {error.strerror or error}. Do it as who started the fleet."
            ) from error
