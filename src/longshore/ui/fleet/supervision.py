"""A fleet from its start to its end: supervised, shown, logged, and stopped on request."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from longshore.clock import Clock, SystemClock
from longshore.errors import LongshoreError, NotFoundError, QueueError, QueueUnavailableError
from longshore.extensions.submissions import being_submitted
from longshore.fleet.launch.fleet_log import LOGS, FleetLog
from longshore.fleet.launch.launch import Launch
from longshore.fleet.launch.ready_code import ReadyCode
from longshore.fleet.launch.stop_signals import stop_signals
from longshore.fleet.launch.worker_command import worker_command, worker_number
from longshore.fleet.sizing.autoscale import QueueLoad, Scaler
from longshore.fleet.sizing.memory_use import footprints
from longshore.fleet.sizing.resizer import Numbered, Resizer
from longshore.fleet.supervise.control import HOME, FleetControl
from longshore.fleet.supervise.supervisor import (
    Fleet,
    Phase,
    Stop,
    SupervisedWorker,
    WorkerCommand,
    WorkerExit,
    how_it_ended,
)
from longshore.job import State
from longshore.observe.endpoint import offered
from longshore.observe.health_files import told
from longshore.observe.logs import configure_relay
from longshore.queue import Count, Queue, Selection, totals
from longshore.runs.estimate.forecast import Forecast
from longshore.settings import resolve
from longshore.system.printable import printable, printable_lines
from longshore.system.signals import send_hangup
from longshore.ui.exit_codes import INTERRUPTED, OUTPUT_CLOSED
from longshore.ui.fleet.board import FleetBoard, ProxySummary, shares_by_name
from longshore.ui.fleet.observed_fleet import ObservedFleet
from longshore.ui.fleet.summary import FleetConsole, closing_lines
from longshore.ui.fleet.view import FleetView, fleet_view, progress_line
from longshore.ui.notices import notices
from longshore.ui.program import queue_flag
from longshore.ui.words import counted
from longshore.worker.lifecycle.hangup import Hangup
from longshore.worker.lifecycle.live_settings import LiveSettings

LOOK_EVERY = 0.25
"""Seconds between two reads of the workers' state, and two pictures of them."""
COUNT_EVERY, ESTIMATE_EVERY = 1.0, 5.0
WRITE_EVERY = 60.0
"""Seconds between two lines of progress in the log."""
_PATIENCE = 10.0
_STOPPING = {
    Stop.DRAIN: "Finishing what is under way. Ctrl-C again, or `longshore stop --now`, gives it back instead.",
    Stop.RELEASE: "Giving back what is under way, and leaving.",
}


async def supervise(
    launch: Launch, queue: Queue, control: FleetControl, renew: Callable[[], Awaitable[ReadyCode]] | None = None
) -> int:
    """Start the workers, show how far they are, and return the exit code when the last has ended.

    `renew` returns the published code that workers should run by now; None if they run a file of the user.
    """
    to = FleetConsole(highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())
    with control.held(launch.options.run, len(launch.plan.numbers)), FleetLog(LOGS / "fleet.log") as log:
        # Log messages of this process would otherwise appear in the middle of the picture.
        configure_relay(log.relay, level="info")
        supervision, clock = Supervision(launch, queue, control, to, log, renew=renew), SystemClock()
        settings = launch.settings
        folder = Path(settings.data_folder)
        observed = ObservedFleet(supervision.board, folder, clock)
        try:
            async with offered(settings.metrics_port, settings.metrics_host, observed), told(observed, folder):
                return await supervision.run()
        finally:
            for limits in HOME.glob("partitions*.json"):
                limits.unlink(missing_ok=True)


@dataclass
class Supervision:
    """One fleet while it runs."""

    launch: Launch
    queue: Queue
    control: FleetControl
    to: FleetConsole
    log: FleetLog
    clock: Clock = field(default_factory=SystemClock)
    renew: Callable[[], Awaitable[ReadyCode]] | None = None

    def __post_init__(self) -> None:
        plan = self.launch.plan
        self.view: FleetView = fleet_view(self.to)
        self.log.complain = self.view.say
        self.fleet = Fleet(
            [worker_command(self.launch, number) for number in plan.numbers],
            self.say,
            self.clock,
            self.launch.settings.stagger,
            self._hear,
            renewed=None if self.renew is None else self._renewed,
        )
        self._renewing = asyncio.Lock()
        shares = shares_by_name(plan.shares) if plan.partitioned else None
        self.board = FleetBoard(self.clock, self.fleet.posts, shares, self.launch.title, len(plan.numbers))
        self.board.counted(totals(self.launch.counts))
        self._proxies = ProxySummary(self.board, self.say)
        # An estimate is for a whole run, so there is one only if these workers may do all of it.
        run = self.launch.options.run if plan.reach is None and not plan.trial else None
        self._watch = None if run is None else Forecast(self.queue, run, self.clock)
        self._estimated = float("-inf")
        self._phases: dict[str, Phase] = {}
        # Each worker follows the settings by itself; here a change is only logged, once for all of them.
        self._settings = LiveSettings(lambda: resolve(self.launch.options.given))
        self._closed = False
        """Whether the terminal is known to be gone."""
        self._pause_reasons: set[str] = set()
        """The reasons of pauses that have been printed."""
        self._working: asyncio.Task[list[WorkerExit]] | None = None
        self._reported: set[int] = set()
        """The process ids of workers that have reported."""
        self._awaiting_hangup: set[int] = set()
        """The process ids that still have to get a SIGHUP."""

    def say(self, text: str) -> None:
        """Print a sentence, and log it."""
        text = printable(text)
        self.log.write(text)
        self.view.say(text)

    async def run(self) -> int:
        """Run the fleet from the first worker to the summary, and return the exit code."""
        began = self.clock.monotonic()
        self.log.write(f"{self.launch.title}: starting {counted(len(self.launch.plan.numbers), 'worker')}")
        self._working = working = asyncio.create_task(self.fleet.run(*self._beside()))
        following = self._settings.watch(self.clock, lambda _: None)
        beside = (self._count_repeatedly(), self._measure_memory_repeatedly(), following)
        looks = [asyncio.create_task(each) for each in beside]
        hangup = Hangup(asked=self._pass_on_hangup, terminal_gone=self._terminal_gone)
        # A signal during the cleanup must not end the cleanup.
        with stop_signals(self._interrupted), hangup:
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
        """Return the coroutines that run beside the workers: with autoscaling, the resizer."""
        options = self.launch.options
        if options.policy is None:
            return []
        numbered = Numbered(self.fleet, lambda number: worker_command(self.launch, number))
        return [Resizer(numbered, Scaler(options.policy, self.clock), self._load, self.say, options.until_done).keep()]

    async def _load(self) -> QueueLoad:
        # Before the counts: see `extensions.submissions`.
        submitting = await being_submitted(self.queue, self.launch.options.run)
        count = await self._counted()
        return QueueLoad(count.pending, count.claimed, submitting)

    async def _renewed(self, command: WorkerCommand) -> WorkerCommand | None:
        """Return the command of a worker with the code that the queue has now; None if that may not run here."""
        if self.renew is None:
            return None
        async with self._renewing:
            while not self.fleet.stopping.is_set():
                try:
                    code = await self.renew()
                except QueueUnavailableError:
                    await self.clock.sleep(COUNT_EVERY)
                except LongshoreError as error:
                    self.say(f"{command.name}: {error}")
                    return None
                else:
                    self._take(code)
                    return worker_command(self.launch, worker_number(command.name))
        return None

    def _take(self, code: ReadyCode) -> None:
        options = self.launch.options
        if code != options.code:
            self.launch = replace(self.launch, options=replace(options, file=code.file, code=code))
            self.say(
                f"Version {code.fingerprint[:12]} of the handlers: each worker starts with it as soon as it is free."
            )

    # While it runs

    def _look(self) -> None:
        if self.to.reader_gone and self.board.asked is Stop.NOT:
            self.say("The reader of the output is gone.")
            self.stop(Stop.DRAIN)
        requested = self.control.requested()
        if requested > self.board.asked:
            self.stop(requested)
        self._note_phases()
        self._note_pauses()
        self._proxies.look()
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

    def _note_pauses(self) -> None:
        """Print one line for all workers: the reason of a pause is usually the same for all."""
        reasons = set(self.board.paused.values())
        for reason in sorted(reasons - self._pause_reasons):
            self.say(
                f"PAUSED: {reason.rstrip('.')}. Nothing new begins; work goes on by itself once this is put right."
            )
        self._pause_reasons |= reasons
        if self._pause_reasons and not reasons and self.board.goes_on:
            self._pause_reasons.clear()
            self.say("RESUMED: work goes on.")

    def _hear(self, name: str, line: bytes) -> None:
        self.board.hear(name, line)
        pid = self.fleet.posts[name].pid
        if pid is not None and pid not in self._reported:
            self._reported = {pid} | self._reported.intersection(self.fleet.pids)
            if pid in self._awaiting_hangup:
                _send_hangup(pid)

    async def _count_repeatedly(self) -> None:
        written = self.clock.monotonic()
        while True:
            # A busy queue is no reason to stop; if it stays busy, the workers' logs say so.
            with suppress(QueueError, NotFoundError):
                await self._look_at_queue()
            if self.clock.monotonic() - written >= WRITE_EVERY:
                written = self.clock.monotonic()
                self.log.write(progress_line(self.board))
            await self.clock.sleep(COUNT_EVERY)

    async def _look_at_queue(self) -> None:
        if self._watch is None:
            self.board.counted(await self._counted())
            return
        look, now = await self._watch.look(), self.clock.monotonic()
        self.board.counted(look.count)
        flag = queue_flag(self.launch.settings)
        self._notice(notices(self._watch.blockers, look.evidence.hosts, flag))
        if now - self._estimated >= ESTIMATE_EVERY:
            self._estimated, self.board.estimate = now, look.estimate

    def _notice(self, lines: Mapping[str, str]) -> None:
        """Show these notices while they hold, and log each once."""
        for name, line in lines.items():
            if name not in self.board.notices:
                self.log.write(line)
        self.board.notices = lines

    async def _counted(self) -> Count:
        return totals(self.launch.plan.counts(await self.queue.stats(self.launch.options.run)))

    async def _measure_memory_repeatedly(self) -> None:
        while True:
            self.board.memory = await asyncio.to_thread(footprints, self.fleet.pids)
            await self.clock.sleep(2 * COUNT_EVERY)

    # Stopping

    def _interrupted(self) -> None:
        """Handle a SIGINT or SIGTERM."""
        if self.board.asked is Stop.RELEASE and self._working is not None:
            self._working.cancel()
        self.stop(Stop(min(self.board.asked + 1, Stop.RELEASE)))

    def stop(self, wanted: Stop) -> None:
        """Drain the workers, or make them release their jobs. A repeated request prints nothing."""
        if wanted > self.board.asked:
            self.board.asked = wanted
            self.say(_STOPPING[wanted])
        self.fleet.stop(wanted)

    def _terminal_gone(self) -> None:
        # Both the system and the shell may send the signal.
        if not self._closed:
            self._closed = self.to.quiet = True
            self.say("The terminal was closed.")
        self.stop(max(self.board.asked, Stop.DRAIN))

    def _pass_on_hangup(self) -> None:
        self.log.write("SIGHUP received: the workers read their settings again")
        self._settings.ask()
        # A worker that has not reported yet may not handle the signal yet: it gets it after its first report.
        self._awaiting_hangup = set(self.fleet.pids) - self._reported
        for pid in self._reported.intersection(self.fleet.pids):
            _send_hangup(pid)

    # The end

    async def _end(self, seconds: float) -> int:
        count = self.board.count
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                count = await self._counted()
        bad = [post for post in self.fleet.posts.values() if not self._ended_well(post)]
        died = await self._jobs_whose_process_died() if count.failed else False
        left = self.launch.options.until_done and bool(count.remaining) and self.board.asked is Stop.NOT
        for line in closing_lines(self.launch, self.board, count, seconds):
            self._tell(line)
        for post in bad:
            how, log = how_it_ended(post.ending.exit_code), post.ending.command.log
            if post.phase is not Phase.GIVEN_UP:
                self._tell(f"  {post.ending.command.name} {how}; its log: {log}")
        if died:
            self._tell("  Jobs failed because their process died: `longshore jobs --error crash` lists them.")
        if bad or died or left:
            return 1
        if self.to.reader_gone:
            return OUTPUT_CLOSED
        return INTERRUPTED if self.board.asked is Stop.RELEASE else 0

    def _ended_well(self, post: SupervisedWorker) -> bool:
        # A worker that was stopped before its start, or ordered to leave at once, ended as ordered.
        stopped_early = post.wanted is Stop.DRAIN and post.ending.exit_code is None
        return post.ending.done or self.board.asked is Stop.RELEASE or stopped_early

    def _tell(self, text: str) -> None:
        self.log.write(text.strip())
        self.to.print(printable_lines(text), markup=False)

    async def _jobs_whose_process_died(self) -> bool:
        chosen = Selection(run=self.launch.options.run, states=frozenset({State.FAILED}), error="crash")
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                return bool(await self.queue.jobs(chosen, limit=1))
        return False


def _send_hangup(pid: int) -> None:
    with suppress(OSError):
        send_hangup(pid)
