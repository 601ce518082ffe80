"""The command that starts each worker of a fleet."""

from __future__ import annotations

import hashlib
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from longshore.fleet.launch.fleet_log import LOGS
from longshore.fleet.launch.worker_environment import given_options, worker_environment
from longshore.fleet.partitions.membership import PartitionMode
from longshore.fleet.supervise.allowed_partitions import write_limits
from longshore.fleet.supervise.control import HOME
from longshore.fleet.supervise.supervisor import WorkerCommand
from longshore.fleet.supervise.worker_slot import WorkerSlot

if TYPE_CHECKING:
    from longshore.fleet.launch.launch import Launch
    from longshore.settings import Settings


def worker_command(launch: Launch, number: int) -> WorkerCommand:
    """Return the command that starts worker `number` of a fleet."""
    options, settings, plan = launch.options, launch.settings, launch.plan
    name = fleet_name(settings)
    shared = plan.partitioned and not plan.trial
    limits = plan.limits_of(number)
    place = WorkerSlot(
        fleet=name,
        number=number,
        size=plan.size,
        mode=(PartitionMode.STRICT if settings.strict_partitions else PartitionMode.HELP) if shared else None,
        table=None if options.table is None else str(options.table.resolve()),
        limits=None if limits is None else str(write_limits(_limits_file(number if plan.trial else None), limits)),
    )
    return WorkerCommand(
        name=worker_name(number),
        arguments=(
            *(sys.executable, "-m", "longshore", "work", str(options.file), "--lifeline", "--place", place.encoded()),
            *(("--run", options.run) if options.run is not None else ()),
            *(("--until-done",) if options.until_done else ()),
            *("--worker-id", f"{name}-{number}"),
            *given_options(settings, "concurrency", "lease_seconds", "profile"),
        ),
        log=LOGS / f"worker_{number}.log",
        environment=worker_environment(settings),
    )


def _limits_file(number: int | None) -> Path:
    """Return the file with the partitions of worker `number`, or of all workers."""
    return (HOME / ("partitions.json" if number is None else f"partitions_{number}.json")).absolute()


def worker_name(number: int) -> str:
    """Return the name of worker `number` of a fleet."""
    return f"worker {number}"


def fleet_name(settings: Settings) -> str:
    """Return the name of the fleet: unique, and the same after a restart, as it is made of the host and the folder."""
    if settings.worker_id is not None:
        return settings.worker_id
    folder = hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:4]
    return f"{socket.gethostname().partition('.')[0]}_{folder}"
