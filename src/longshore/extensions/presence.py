"""The roll: which workers are alive, and what each says of itself. A medium that keeps one says so in its traits.

The roll and the leases have one deadline: a worker that renews is present, and one whose leases have expired is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

import msgspec

from longshore.lease import Held, WorkerId
from longshore.queue import Queue
from longshore.stored import Json


class PresentWorker(msgspec.Struct, frozen=True):
    """A worker that is alive."""

    worker: WorkerId
    about: Mapping[str, Json]
    """What it last said of itself."""


class WorkerRegistry(Queue, Protocol):
    """A queue with the trait `keeps_roll`."""

    async def sign_in(self, worker: WorkerId, lease: timedelta, about: Mapping[str, Json]) -> list[Held]:
        """Everything `renew` does, and in the same write: be on the roll, with these words. Again at every heartbeat.

        `about` is a JSON object of at most a few kilobytes; it replaces what the worker said before. A plain `renew` or
        `claim` of a worker that signed in keeps it on the roll as it is; one that never signed in is not on it. A
        worker that was reaped is off it, and must sign in again.
        """

    async def sign_out(self, worker: WorkerId) -> None:
        """Be off the roll at once. Leases stay as they are. Harmless for a worker that is not on it."""

    async def present(self) -> list[PresentWorker]:
        """Who is on the roll and has renewed within its lease length, by the clock leases are judged by; by label.

        On media without a clock of their own an observer counts a worker as present until it has watched it be silent
        for a whole lease length.
        """
