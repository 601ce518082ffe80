"""How each worker of a fleet is started."""

from __future__ import annotations

import hashlib
import socket
import sys
from pathlib import Path

from longshore.cli.launch import Launch
from longshore.fleet.partitions.membership import PartitionMode
from longshore.fleet.supervise.allowed_partitions import write_limits
from longshore.fleet.supervise.control import HOME
from longshore.fleet.supervise.supervisor import WorkerCommand
from longshore.fleet.supervise.worker_slot import WorkerSlot
from longshore.runs.local.campaign import said, worker_environment
from longshore.ui.fleet_board import worker_name
from longshore.ui.fleet_log import LOGS


def command(launch: Launch, number: int) -> WorkerCommand:
    """How to start worker N of a fleet."""
    order, settings, lineup = launch.order, launch.settings, launch.lineup
    name = fleet_name(launch)
    shared = lineup.partitioned and not lineup.trial
    limits = lineup.limits_of(number)
    place = WorkerSlot(
        fleet=name,
        number=number,
        size=lineup.size,
        mode=(PartitionMode.STRICT if settings.strict_partitions else PartitionMode.HELP) if shared else None,
        table=None if order.table is None else str(order.table.resolve()),
        limits=None if limits is None else str(write_limits(_limits_file(number if lineup.trial else None), limits)),
    )
    return WorkerCommand(
        name=worker_name(number),
        arguments=(
            *(sys.executable, "-m", "longshore", "work", str(order.file), "--lifeline", "--place", place.encoded()),
            *(("--run", order.run) if order.run is not None else ()),
            *(("--until-done",) if order.until_done else ()),
            *("--worker-id", f"{name}-{number}"),
            *said(settings, "concurrency", "lease_seconds", "profile"),
        ),
        log=LOGS / f"worker_{number}.log",
        environment=worker_environment(settings),
    )


def _limits_file(number: int | None) -> Path:
    """Where the limits of one worker are, or those of all."""
    return (HOME / ("partitions.json" if number is None else f"partitions_{number}.json")).absolute()


def fleet_name(launch: Launch) -> str:
    """What tells this fleet from all others, and is the same when it is started again: the host and the folder."""
    if launch.settings.worker_id is not None:
        return launch.settings.worker_id
    folder = hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:4]
    return f"{socket.gethostname().partition('.')[0]}_{folder}"
