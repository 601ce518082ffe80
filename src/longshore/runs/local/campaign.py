"""A run from end to end on this machine: its workers started, watched, and stopped in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from longshore.cli.options import LOCAL
from longshore.errors import QueueUnavailableError
from longshore.fleet.supervise.supervisor import Fleet, WorkerCommand, WorkerExit
from longshore.queue import Count, Queue, totals
from longshore.runs.watch.current_rate import CurrentRate
from longshore.settings import TABLE, Settings
from longshore.ui.fleet_board import FleetBoard, ProxySummary
from longshore.ui.host_notices import HostNews
from longshore.ui.progress import RunProgress

LOOK_EVERY = 0.2
"""Seconds between two looks at the counters."""


@dataclass(frozen=True)
class Campaign:
    """What to work on, with what, and how much of it."""

    run: str
    handler_file: Path
    settings: Settings
    logs: Path
    """The folder of the workers' logs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for its workers, besides those they have anyway."""

    @property
    def lease_seconds(self) -> float:
        """The lease of its workers: as set, else short."""
        return self._local("lease_seconds")

    def _local(self, name: str) -> float:
        return float(getattr(self.settings, name)) if name in self.settings.sources else LOCAL[name]

    def commands(self) -> list[WorkerCommand]:
        """How to start each of its workers."""
        settings = self.settings
        arguments = (
            sys.executable,
            *("-m", "longshore", "work", str(self.handler_file), "--run", self.run, "--until-done", "--lifeline"),
            *("--profile", settings.profile, "--batch-size", str(settings.batch_size)),
            *said(settings, "concurrency", "min_delay_seconds", "max_delay_seconds"),
            *("--lease-seconds", str(self.lease_seconds)),
            *("--poll-interval", str(self._local("poll_interval"))),
            # Limits that are meant for a worker of its own would leave the run unfinished.
            *("--max-work", "0", "--max-empty-polls", "0", "--max-idle-hours", "0"),
        )
        return [
            WorkerCommand(
                name=f"worker {number}",
                arguments=(*arguments, *self._label(number)),
                log=self.logs / f"worker_{number}.log",
                environment=worker_environment(settings) | dict(self.environment),
            )
            for number in range(1, settings.workers + 1)
        ]

    def _label(self, number: int) -> tuple[str, ...]:
        label = self.settings.worker_id
        return ("--worker-id", f"{label}-{number}") if label else ()


def said(settings: Settings, *names: str) -> Iterator[str]:
    """What the command line said of these settings, as options for a worker; the rest it looks up itself."""
    for name in names:
        if settings.source(name).level == "command line":
            yield from (TABLE[name].flag, settings.shown(name))


def worker_environment(settings: Settings) -> dict[str, str]:
    """The environment of a worker process that writes its log into a file."""
    # The queue's URL may hold a password: in the environment nobody else on the machine sees it. Its other names
    # are emptied, so that a .env file cannot contradict what was decided here.
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


@dataclass(frozen=True)
class Conducted:
    """How the workers left the run."""

    count: Count
    endings: list[WorkerExit]
    interrupted: bool


async def conduct(queue: Queue, campaign: Campaign, progress: RunProgress) -> Conducted:
    """Start the workers, show how far they are, and return when the last has ended.

    The first Ctrl-C lets them finish what they hold, the second makes them give it back, the third kills them.
    """
    # How far the workers are is seen in the queue. That their proxies rest is not: they say so.
    # `board` is made below: it looks at the fleet.
    fleet = Fleet(campaign.commands(), progress.say, heard=lambda *said: board.hear(*said))  # noqa: PLW0108
    board = FleetBoard(fleet.clock, fleet.posts, None, campaign.run, campaign.settings.workers)
    proxies = ProxySummary(board, progress.say)
    hosts = HostNews(queue, campaign.run, fleet.clock, progress.say)
    working = asyncio.create_task(fleet.run())
    stops = 0

    def stop() -> None:
        nonlocal stops
        stops += 1
        if stops == 1:
            progress.say("Finishing what is under way. Ctrl-C again gives it back and leaves at once.")
        elif stops > 2:
            working.cancel()
        fleet.stop()

    pace = CurrentRate()
    clock = fleet.clock
    with asked_to_stop(stop):
        try:
            while not working.done():
                # A busy queue is no reason to stop; the workers say so in their logs if it stays that way.
                with suppress(QueueUnavailableError):
                    count = totals(await queue.stats(campaign.run))
                    pace.note(clock.monotonic(), count.total - count.remaining)
                    if (opens := await hosts.look(count)) is not None:
                        pace.wait_until(opens)
                    progress.show(count, pace)
                proxies.look()
                await asyncio.wait({working}, timeout=LOOK_EVERY)
        finally:
            working.cancel()
            await asyncio.wait({working})
    count = totals(await queue.stats(campaign.run))
    progress.show(count, pace)
    endings = [] if working.cancelled() else working.result()
    return Conducted(count, endings, interrupted=stops > 0)


@contextmanager
def asked_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop`, in the event loop, for each Ctrl-C or request to end, instead of dying of it."""
    if threading.current_thread() is not threading.main_thread():
        # Signals are heard by the main thread only, which is somebody else's here.
        yield
        return
    loop = asyncio.get_running_loop()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
