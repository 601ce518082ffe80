"""A run from its first job to its last on this machine: the workers are started, watched and stopped in order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.fleet.launch.stop_signals import stop_signals
from longshore.fleet.launch.worker_command import work_command
from longshore.fleet.supervise.supervisor import Fleet, SupervisedWorker, WorkerCommand, WorkerExit
from longshore.handlers.handler import Handler
from longshore.queue import Count, Queue, totals
from longshore.runs.local.defaults import LOCAL_DEFAULTS
from longshore.settings import Settings

LOOK_EVERY = 0.2
"""Seconds between two reads of the counters."""


@dataclass(frozen=True)
class Campaign:
    """A run, the handler file and the settings of its workers, and the folder of their logs."""

    run: str
    handler_file: Path
    settings: Settings
    logs: Path
    """The folder of the workers' logs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the workers, in addition to those of this process."""
    own_handlers: Mapping[str, Handler] | None = None
    """Handlers that only this program has, by kind: one worker inside it uses them. None: processes load the file."""

    @property
    def lease_seconds(self) -> float:
        """The lease of its workers: as set, else the short default of a local run."""
        return self._local("lease_seconds")

    @property
    def poll_interval(self) -> float:
        """The longest wait of its workers between two looks for work."""
        return self._local("poll_interval")

    @property
    def workers(self) -> int:
        """How many workers it has."""
        return self.settings.workers if self.own_handlers is None else 1

    def _local(self, name: str) -> float:
        return float(getattr(self.settings, name)) if name in self.settings.sources else LOCAL_DEFAULTS[name]

    def commands(self) -> list[WorkerCommand]:
        """Return the command of each of its workers."""
        settings = self.settings
        arguments = (
            *("--run", self.run, "--until-done", "--profile", settings.profile),
            *("--batch-size", str(settings.batch_size), "--lease-seconds", str(self.lease_seconds)),
            *("--poll-interval", str(self.poll_interval)),
            # The limits of a single worker would leave the run unfinished.
            *("--max-work", "0", "--max-empty-polls", "0", "--max-idle-hours", "0"),
        )
        handed_on = ("concurrency", "min_delay_seconds", "max_delay_seconds")
        label = settings.worker_id
        return [
            work_command(
                number,
                self.handler_file,
                settings,
                (*arguments, *(("--worker-id", f"{label}-{number}") if label else ())),
                handed_on,
                logs=self.logs,
                variables=self.environment,
            )
            for number in range(1, settings.workers + 1)
        ]


class Crew(Protocol):
    """The workers of a campaign: a fleet of processes, or the one worker inside this program."""

    clock: Clock

    @property
    def posts(self) -> Mapping[str, SupervisedWorker]:
        """The supervised processes by their names."""

    async def run(self) -> list[WorkerExit]:
        """Work until the run is over or `stop` is called; return how each worker ended."""

    def stop(self) -> None:
        """Ask the workers to finish the jobs they hold and stop; on the second call, to end at once."""


class CampaignProgress(Protocol):
    """The view that `conduct` reports to while the workers run."""

    def begin(self, crew: Crew) -> None:
        """Follow these workers, which are about to start."""

    def hear(self, worker: str, line: bytes) -> None:
        """Take a status report of a worker."""

    def say(self, text: str) -> None:
        """Tell the person a sentence."""

    async def update(self, count: Count | None) -> None:
        """Show the counts of the run; None if the queue did not answer this time."""

    def finish(self, count: Count) -> None:
        """Show the counts after the last worker has ended."""


@dataclass(frozen=True)
class Conducted:
    """How the workers left the run."""

    count: Count
    endings: list[WorkerExit]
    interrupted: bool


async def conduct(queue: Queue, campaign: Campaign, progress: CampaignProgress) -> Conducted:
    """Start the workers, report their progress, and return when the last has ended.

    The first Ctrl-C lets them finish their jobs in flight, the second makes them release these, the third kills them.
    """
    crew = _crew(campaign, progress)
    progress.begin(crew)
    working = asyncio.create_task(crew.run())
    stops = 0

    def stop() -> None:
        nonlocal stops
        stops += 1
        if stops == 1:
            progress.say("Finishing what is under way. Ctrl-C again gives it back and leaves at once.")
        elif stops > 2:
            working.cancel()
        crew.stop()

    with stop_signals(stop):
        try:
            while not working.done():
                count = None
                # A busy queue is no reason to stop; if it stays busy, the workers' logs say so.
                with suppress(QueueUnavailableError):
                    count = totals(await queue.stats(campaign.run))
                await progress.update(count)
                await asyncio.wait({working}, timeout=LOOK_EVERY)
        finally:
            working.cancel()
            await asyncio.wait({working})
    count = totals(await queue.stats(campaign.run))
    progress.finish(count)
    endings = [] if working.cancelled() else working.result()
    return Conducted(count, endings, interrupted=stops > 0)


def _crew(campaign: Campaign, progress: CampaignProgress) -> Crew:
    if campaign.own_handlers is None:
        return Fleet(campaign.commands(), progress.say, heard=progress.hear)
    # Imported here because the command, whose workers are processes, does not need a worker's modules.
    from longshore.runs.local.own_worker import OwnWorker

    return OwnWorker(campaign, campaign.own_handlers)
