"""Presence: which workers are alive, and what each of them writes about itself.

Presence and leases have the same deadline: a worker that renews its leases is present, and a worker whose leases have
expired is not.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import UNSET, UnsetType

from longshore.lease import Held, WorkerId
from longshore.stored import Json

_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class FleetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet of a worker, and the worker's number in it."""

    name: str = ""
    number: int | None = None


class MembershipInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a worker among those that share the partitions of a run; see `fleet.partitions.membership`."""

    run: str | UnsetType | None = UNSET
    """The run it works on; None for every run."""
    number: int | None = None
    """None for a worker that has retired."""
    partitions: tuple[str, ...] = ()
    """In strict mode: the partitions that it has or is about to take."""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The information that a worker publishes about itself. Every field is optional; the field names are stored."""

    machine: str | None = None
    """The name of its machine."""
    slots: _Number | None = msgspec.field(default=None, name="of")
    """How many attempts it may have in flight."""
    busy: _Number | None = None
    """How many attempts it has in flight."""
    pause: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """The average pause between two of its jobs, in seconds; None if it does not say."""
    kinds: tuple[str, ...] | None = None
    """The kinds of jobs it takes; None if it does not say."""
    fleet: FleetInfo | None = None
    membership: MembershipInfo | None = None
    partitions: tuple[str, ...] | None = None
    """The partitions it is limited to; None for all. `membership` lists those that a member has now."""
    run: str | UnsetType | None = UNSET
    """The run it works on; None for every run. A member writes it into `membership` instead."""
    submitting: str | None = None
    """The run that it adds jobs to: then it is no worker, but a submission under way (see `extensions.submissions`)."""

    @property
    def working_on(self) -> str | UnsetType | None:
        """The run that the worker, as a member or not, says it works on; `UNSET` if it does not say."""
        return self.run if self.membership is None else self.membership.run


def worker_info(stored: Json) -> WorkerInfo:
    """Return the information in `stored`, as it was read from a medium.

    Keys that this version does not know, and fields whose value has another type, are ignored: another version, or
    another program, may have written them.
    """
    try:
        return msgspec.convert(stored, WorkerInfo)
    except msgspec.ValidationError:
        fields = stored.items() if isinstance(stored, dict) else ()
        return msgspec.convert({key: value for key, value in fields if _is_readable(key, value)}, WorkerInfo)


def _is_readable(key: str, value: Json) -> bool:
    try:
        msgspec.convert({key: value}, WorkerInfo)
    except msgspec.ValidationError:
        return False
    return True


class PresentWorker(msgspec.Struct, frozen=True):
    """A worker that is alive."""

    worker: WorkerId
    info: WorkerInfo
    """The information it published last."""
    unseen_seconds: float | None = None
    """Set if it probably is not alive: how long ago it was last seen, longer than its lease. For people only.

    On media without a clock of their own, an observer that has not watched for a whole lease length can only compare
    the clocks of two machines, and no decision may depend on that.
    """


@runtime_checkable
class WorkerRegistry(Protocol):
    """Offered by a queue with the trait `tracks_presence`."""

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        """Do what `renew` does and publish `info` in the same write. Only the worker itself calls it, repeatedly.

        `info` is stored as a JSON object of at most a few kilobytes and replaces the worker's earlier one. A plain
        `renew` or `claim` keeps a registered worker present with the same info, and does not register any other worker.
        Reaping a worker deregisters it; it must register again.
        """

    async def deregister(self, worker: WorkerId) -> None:
        """Remove a worker from those present, at once. Its leases stay. A worker that is not registered is ignored."""

    async def present_workers(self) -> list[PresentWorker]:
        """Return the registered workers that have renewed within their lease length, ordered by label.

        The clock is the one that leases are judged by. On media without a clock of their own, an observer counts a
        worker as present until it has seen no renewal of it for a whole lease length.
        """
