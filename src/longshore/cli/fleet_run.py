"""A fleet from its start to its end: supervised, shown, written down, stopped when asked."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from longshore.cli.campaign import asked_to_stop, said, worker_environment
from longshore.cli.fleet_board import Board, shares_by_name, worker_name
from longshore.cli.fleet_view import FleetView, fleet_view, progress_line
from longshore.cli.launch import Launch
from longshore.cli.output import counted, duration
from longshore.cli.progress import rate
from longshore.clock import Clock, SystemClock
from longshore.errors import QueueError, UsageError
from longshore.fleet.autoscale import Load, Scaler
from longshore.fleet.control import Control
from longshore.fleet.footprint import footprints
from longshore.fleet.membership import Mode
from longshore.fleet.place import Place
from longshore.fleet.sizing import Numbered, Sizing
from longshore.fleet.supervisor import Ending, Fleet, Phase, Post, Stop, WorkerCommand, how_it_ended
from longshore.job import State
from longshore.queue import Count, Queue, Selection, totals
from longshore.worker.hangup import Hangup

LOGS = Path("logs")
LOOK_EVERY = 0.25
"""Seconds between two looks at the workers, and two pictures of them."""
COUNT_EVERY = 1.0
WRITE_EVERY = 60.0
"""Seconds between two lines in the log that say how far it is."""
_PATIENCE = 10.0


async def supervise(launch: Launch, queue: Queue, control: Control) -> int:
    """Start the workers, show how far they are, and return the exit code when the last has ended."""
    to = Console(highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())
    with control.held(launch.order.run, len(launch.lineup.numbers)), Log(LOGS / "fleet.log") as log:
        supervision = Supervision(launch, queue, control, to, log)
        return await supervision.run()


class Log:
    """The manager's log: a line for each thing a person may want to look up later."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise UsageError(
                f"{self._path} cannot be written: {error.strerror or error}. The logs of a fleet go there."
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, text: str) -> None:
        """Add a line."""
        self._file.write(f"{datetime.now(UTC).astimezone().isoformat(timespec='seconds')} {text}\n")


@dataclass
class Supervision:
    """One fleet while it runs."""

    launch: Launch
    queue: Queue
    control: Control
    to: Console
    log: Log
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        lineup = self.launch.lineup
        self.view: FleetView = fleet_view(self.to)
        self.fleet = Fleet(
            [command(self.launch, number) for number in lineup.numbers],
            self.say,
            self.clock,
            self.launch.settings.stagger,
            self._hear,
        )
        shares = shares_by_name(lineup.shares) if lineup.partitioned else None
        self.board = Board(self.clock, self.fleet.posts, shares, self.launch.title, len(lineup.numbers))
        self._before = totals(self.launch.counts)
        self.board.counted(self._before)
        self._phases: dict[str, Phase] = {}
        self._asked = Stop.NOT
        self._working: asyncio.Task[list[Ending]] | None = None

    def say(self, text: str) -> None:
        """Tell the person, and write it down."""
        self.log.write(text)
        self.view.say(text)

    async def run(self) -> int:
        """From the first worker to the last word. The exit code."""
        began = self.clock.monotonic()
        self.log.write(f"{self.launch.title}: starting {counted(len(self.launch.lineup.numbers), 'worker')}")
        self._working = working = asyncio.create_task(self.fleet.run(*self._beside()))
        looks = [asyncio.create_task(self._count_again_and_again()), asyncio.create_task(self._weigh_again_and_again())]
        hangup = Hangup(asked=self._pass_on_hangup, terminal_gone=self._terminal_gone)
        # A signal that comes while the last of it is put away must not kill what puts it away.
        with asked_to_stop(self._interrupted), hangup:
            try:
                with self.view:
                    while not working.done():
                        self._look()
                        await asyncio.wait({working}, timeout=LOOK_EVERY)
                    self._note_phases()
            finally:
                for task in (*looks, working):
                    task.cancel()
                await asyncio.wait({*looks, working})
        if not working.cancelled():
            working.result()
        return await self._end(self.clock.monotonic() - began)

    def _beside(self) -> list[Coroutine[Any, Any, None]]:
        """What runs beside the workers: whoever keeps the fleet at its size, where it has none of its own."""
        order = self.launch.order
        if order.policy is None:
            return []
        numbered = Numbered(self.fleet, lambda number: command(self.launch, number))
        return [Sizing(numbered, Scaler(order.policy, self.clock), self._load, self.say, order.until_done).keep()]

    async def _load(self) -> Load:
        count = await self._counted()
        return Load(count.pending, count.claimed)

    # While it runs

    def _look(self) -> None:
        requested = self.control.requested()
        if requested > self._asked:
            self.stop(requested)
        self._note_phases()
        self.view.show(self.board)

    def _note_phases(self) -> None:
        for name, post in self.fleet.posts.items():
            if self._phases.get(name) is post.phase:
                continue
            self._phases[name] = post.phase
            if post.phase is Phase.RUNNING:
                self.log.write(f"{name} started (process {post.pid})")
            elif post.phase is Phase.ENDED:
                self.log.write(f"{name} {how_it_ended(post.ending.exit_code)}")

    def _hear(self, name: str, line: bytes) -> None:
        self.board.hear(name, line)

    async def _count_again_and_again(self) -> None:
        written = self.clock.monotonic()
        while True:
            # A busy queue is no reason to stop; the workers say so in their logs if it stays that way.
            with suppress(QueueError):
                self.board.counted(await self._counted())
            if self.clock.monotonic() - written >= WRITE_EVERY:
                written = self.clock.monotonic()
                self.log.write(progress_line(self.board))
            await self.clock.sleep(COUNT_EVERY)

    async def _counted(self) -> Count:
        return totals(self.launch.lineup.counts(await self.queue.stats(self.launch.order.run)))

    async def _weigh_again_and_again(self) -> None:
        while True:
            self.board.memory = await asyncio.to_thread(footprints, self.fleet.pids)
            await self.clock.sleep(2 * COUNT_EVERY)

    # What stops it

    def _interrupted(self) -> None:
        """Ctrl-C, or a request to end."""
        if self._asked is Stop.RELEASE and self._working is not None:
            self._working.cancel()
        self.stop(Stop(min(self._asked + 1, Stop.RELEASE)))

    def stop(self, wanted: Stop) -> None:
        """Drain, or give back and leave."""
        if wanted is Stop.DRAIN:
            self.say("Finishing what is under way. Ctrl-C again, or `longshore stop --now`, gives it back instead.")
        elif wanted is not self._asked:
            self.say("Giving back what is under way, and leaving.")
        self._asked = wanted
        self.fleet.stop(wanted)

    def _terminal_gone(self) -> None:
        self.to.quiet = True
        self.say("The terminal was closed.")
        self.stop(max(self._asked, Stop.DRAIN))

    def _pass_on_hangup(self) -> None:
        self.log.write("SIGHUP received: the workers read their settings again")
        for pid in self.fleet.pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGHUP)

    # The end

    async def _end(self, seconds: float) -> int:
        count = self.board.count
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                count = await self._counted()
        bad = [post for post in self.fleet.posts.values() if not self._ended_well(post)]
        died = await self._jobs_whose_process_died() if count.failed else False
        left = self.launch.order.until_done and bool(count.remaining) and self._asked is Stop.NOT
        for line in self._closing(count, seconds):
            self._tell(line)
        for post in bad:
            how, log = how_it_ended(post.ending.exit_code), post.ending.command.log
            if post.phase is not Phase.GIVEN_UP:
                self._tell(f"  {post.ending.command.name} {how}; its log: {log}")
        if died:
            self._tell("  Jobs failed because their process died: `longshore jobs --error crash` lists them.")
        if bad or died or left:
            return 1
        return 130 if self._asked is Stop.RELEASE else 0

    def _ended_well(self, post: Post) -> bool:
        # One that was told to stop before it could start, or to leave at once, did what it was told.
        told_early = post.wanted is Stop.DRAIN and post.ending.exit_code is None
        return post.ending.done or self._asked is Stop.RELEASE or told_early

    def _closing(self, count: Count, seconds: float) -> list[str]:
        completed, failed = count.completed - self._before.completed, count.failed - self._before.failed
        given_up = self.board.phases[Phase.GIVEN_UP]
        lines = [
            f"{self.launch.title}: {completed:,} completed, {failed:,} failed in {duration(seconds)} "
            f"({rate(max(completed + failed, 0) / seconds)}); {counted(self.board.restarts, 'restart')}"
            + (f", {counted(given_up, 'worker')} given up" if given_up else "")
            + "."
        ]
        if count.remaining:
            held = f", {count.claimed:,} of them held" if count.claimed else ""
            lines.append(f"  {counted(count.remaining, 'job')} still to do{held}. The same command goes on from here.")
        elif count.total:
            lines.append(f"  Nothing is left to do: {counted(count.total, 'job')} in all.")
        return [*lines, f"  The logs are in {LOGS}/."]

    def _tell(self, text: str) -> None:
        self.log.write(text.strip())
        self.to.print(text, markup=False)

    async def _jobs_whose_process_died(self) -> bool:
        chosen = Selection(run=self.launch.order.run, states=frozenset({State.FAILED}), error="crash")
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                return bool(await self.queue.jobs(chosen, limit=1))
        return False


def command(launch: Launch, number: int) -> WorkerCommand:
    """How to start worker N of a fleet."""
    order, settings, lineup = launch.order, launch.settings, launch.lineup
    name = fleet_name(launch)
    shared = lineup.partitioned and not lineup.trial
    place = Place(
        fleet=name,
        number=number,
        size=lineup.size,
        mode=(Mode.STRICT if settings.strict_partitions else Mode.HELP) if shared else None,
        table=None if order.table is None else str(order.table.resolve()),
    )
    limits = lineup.limits_of(number)
    return WorkerCommand(
        name=worker_name(number),
        arguments=(
            *(sys.executable, "-m", "longshore", "work", str(order.file), "--lifeline", "--place", place.encoded()),
            *(("--run", order.run) if order.run is not None else ()),
            *(("--until-done",) if order.until_done else ()),
            *(("--partitions", ",".join(sorted(limits))) if limits is not None else ()),
            *("--worker-id", f"{name}-{number}"),
            *said(settings, "concurrency", "lease_seconds", "profile"),
        ),
        log=LOGS / f"worker_{number}.log",
        environment=worker_environment(settings),
    )


def fleet_name(launch: Launch) -> str:
    """What tells this fleet from all others, and is the same when it is started again: the host and the folder."""
    if launch.settings.worker_id is not None:
        return launch.settings.worker_id
    folder = hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:4]
    return f"{socket.gethostname().partition('.')[0]}_{folder}"
