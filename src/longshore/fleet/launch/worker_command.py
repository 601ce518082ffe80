"""The command and the environment that a worker process is started with."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longshore.fleet.launch.fleet_log import LOGS
from longshore.fleet.partitions.membership import PartitionMode
from longshore.fleet.supervise.allowed_partitions import write_limits
from longshore.fleet.supervise.control import HOME
from longshore.fleet.supervise.supervisor import WorkerCommand
from longshore.fleet.supervise.worker_slot import WorkerSlot
from longshore.settings import TABLE, Settings

if TYPE_CHECKING:
    from longshore.fleet.launch.launch import Launch


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
    code = options.code
    arguments = (
        *(("--published", code.fingerprint) if code is not None else ()),
        *("--place", place.encoded()),
        *(("--run", options.run) if options.run is not None else ()),
        *(("--until-done",) if options.until_done else ()),
        *("--worker-id", f"{name}-{number}"),
    )
    handed_on = ("concurrency", "lease_seconds", "profile")
    python = sys.executable if code is None else code.python
    return work_command(number, options.file, settings, arguments, handed_on, logs=LOGS, python=python)


def work_command(
    number: int,
    file: Path,
    settings: Settings,
    arguments: Sequence[str],
    handed_on: Sequence[str],
    *,
    logs: Path,
    variables: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> WorkerCommand:
    """Return the command that starts worker `number` with the handlers of `file`.

    `handed_on` are settings that become options if the command line gave them; the worker resolves all others itself.
    `variables` are added to its environment. `python` is the interpreter that runs it.
    """
    return WorkerCommand(
        name=worker_name(number),
        arguments=(
            *(python, "-m", "longshore", "work", str(file), "--lifeline"),
            *("--log-file", str(logs / f"worker_{number}.log")),
            *arguments,
            *_given_options(settings, handed_on),
        ),
        log=logs / f"worker_{number}.log",
        environment=_environment(settings) | dict(variables or {}),
    )


def _given_options(settings: Settings, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if settings.source(name).level == "command line":
            yield from (TABLE[name].flag, settings.shown(name))


def _environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a worker process that writes its log into a file."""
    # The queue's URL may hold a password: other users of the machine see arguments, but not the environment. The
    # aliases of the variable are emptied, so that a .env file cannot name another queue.
    queue = TABLE["queue"]
    log_format = settings.log_format if "log_format" in settings.sources else "text"
    return {
        **os.environ,
        **dict.fromkeys(queue.aliases, ""),
        queue.variable: settings.queue,
        TABLE["log_format"].variable: log_format,
        TABLE["debug"].variable: str(settings.debug).lower(),
        "PYTHONUTF8": "1",
    }


def _limits_file(number: int | None) -> Path:
    """Return the file with the partitions of worker `number`, or of all workers."""
    return (HOME / ("partitions.json" if number is None else f"partitions_{number}.json")).absolute()


def worker_name(number: int) -> str:
    """Return the name of worker `number` of a fleet."""
    return f"worker {number}"


def worker_number(name: str) -> int:
    """Return the number of the worker with this name."""
    return int(name.removeprefix(worker_name(0)[:-1]))


def fleet_name(settings: Settings) -> str:
    """Return the name of the fleet: unique, and the same after a restart, as it is made of the host and the folder."""
    if settings.worker_id is not None:
        return settings.worker_id
    folder = hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:4]
    return f"{socket.gethostname().partition('.')[0]}_{folder}"
