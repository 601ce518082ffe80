"""A trial: real processes on one queue, faults, and at the end a drain, an observation and the verdict of the checker.

The conductor (this process) starts `longshore` commands, which record themselves (`recording`). It counts its steps,
and each step is a moment of the histories.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Self
from unittest import mock

import psutil
from tests.chaos.live import Live, Order
from tests.chaos.media import MEDIA, Switch, TrialMedium
from tests.chaos.observation import observe
from tests.chaos.record_database import RecordDatabase
from tests.chaos.recording import FOLDER, LEASE, ROLE, TWIN
from tests.chaos.site import NumberSite
from tests.chaos.switches import MachineClock, Switches
from tests.services.warm import Warm

from longshore.clock import SystemClock
from longshore.conformance.history import HistoryWriter, Moments, Violation, check, read_histories
from longshore.conformance.history.coverage import Coverage, coverage
from longshore.conformance.history.events import (
    Answered,
    AnyEvent,
    Called,
    FaultSwitched,
    HandlerEntered,
    ProcessEnded,
    QueueSeen,
)
from longshore.conformance.history.history_file import read_history
from longshore.errors import QueueError, UsageError
from longshore.media import exists, open_queue
from longshore.top.figures import FiguresReader, QueueFigures

if TYPE_CHECKING:
    from tests.chaos.guide import Guide

HERE = Path(__file__).parent
DRAIN_SECONDS = 150
_TOP_SECONDS = 20
ORDERED = ("submitter", "operator", "reader", "reparser")
"""The roles of commands that end soon."""
MOST_ORDERS = 4
"""How many of those run at once. The next step waits for one of them: a slow machine takes fewer steps."""
MAX_JOBS, MAX_DEPTH = 60, 2
"""The limits of the run `grow`."""


@dataclass(frozen=True)
class Verdict:
    """The end of a trial."""

    violations: Sequence[Violation]
    coverage: Coverage
    remarks: Sequence[str]
    folder: Path


class Trial:
    """One queue, its processes and their histories. The seed draws what happens, not how fast it happens."""

    def __init__(
        self,
        folder: Path,
        medium: str,
        seed: str,
        *,
        twin: str = "",
        patience: float = DRAIN_SECONDS,
        record_database: bool = False,
        lease: int = 0,
    ) -> None:
        """Make the queue. `patience` is how many seconds able workers have at the end to finish everything.

        `lease` are the seconds of a lease, if they should differ from those that the medium usually has.
        """
        self.folder = folder
        self.patience = patience
        self.chance = random.Random(seed)
        self.main: TrialMedium = MEDIA[medium](folder)
        self.main.lease = lease or self.main.lease
        self._records = RecordDatabase(self.main) if record_database else None
        self.histories = folder / "histories"
        self.histories.mkdir()
        self.moments = Moments(self.histories / "moment", create=True)
        self.clock = MachineClock(folder / "clock", create=True)
        self.switches = Switches(folder)
        self.site = NumberSite()
        self.notes = HistoryWriter(self.histories, "conductor", "conductor")
        self.machines = [folder / f"machine-{number}" for number in range(2)]
        """The cache folders: processes of one machine share theirs."""
        self.queues: dict[str, str] = {}
        self.live: list[Live] = []
        self.numbers = itertools.count()
        self.wide_faults: set[str] = set()
        """Faults that are on now and concern every process."""
        self.on: Counter[str] = Counter()
        """How often each fault is on now."""
        self.before_the_drain: list[Callable[[], None]] = []
        """Called when all faults are off and no process is left."""
        self.stopped: list[Live] = []
        """Workers that stand still, are about to, or have just gone on."""
        self.still: list[Live] = []
        """Workers that stand still."""
        self.done: set[str] = set()
        """Steps that are not taken now, because they are under way or once are enough."""
        self.remarks: list[str] = []
        self._guide: Guide | None = None
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._hurry = False
        """Whether everything that is due later happens now."""
        self._environment = {
            **_environment(folder, twin),
            LEASE: str(self.main.lease),
            "LONGSHORE_POLL_INTERVAL": str(self.main.poll_interval),
            **self.main.variables,
        }
        if self._records is not None:
            self._environment["LONGSHORE_RECORDS_DATABASE"] = self._records.url
        self._warm = Warm(self._environment)
        # The environment variables for queues that the conductor opens: it is a machine of its own.
        cache = {"XDG_CACHE_HOME": str(self.folder / "machine-of-the-conductor")}
        self._patched = mock.patch.dict(os.environ, {**cache, **self.main.variables})
        self.name_queue(self.main.url, "main")
        self.restore_handlers()

    def __enter__(self) -> Self:
        self._patched.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.live:
            self.signal(each, signal.SIGKILL)
        self._patched.stop()
        self._warm.__exit__(*_)
        self.site.close()
        self.main.close()
        if self._records is not None:
            self._records.close()

    def name_queue(self, url: str, name: str) -> None:
        """Give a queue the name that it has in the histories."""
        self.queues[url] = name
        file = self.folder / "queues.json"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(self.queues))
        new.replace(file)

    def restore_handlers(self) -> None:
        """Write the handler file as it should be."""
        text = (HERE / "trial_handlers.py").read_text()
        new = self.folder / "pages.new"
        new.write_text(text)
        new.replace(self.folder / "pages.py")

    # Processes

    def command(self, role: str, *arguments: str, queue: str | None = None, stdin: str = "") -> CompletedProcess[str]:
        """Run `longshore` to its end. What is due meanwhile happens: it may wait for a fault to end."""
        live = self.start(role, *arguments, queue=queue, stdin=stdin)
        if not self._go_on_until(lambda: live not in self.live, DRAIN_SECONDS):
            raise TimeoutError(f"longshore {' '.join(arguments)} did not end; its log is {live.log}")
        assert live.started.code is not None
        said, complained = (file.read_text(errors="replace") for file in (live.said, live.log))
        return CompletedProcess(arguments, live.started.code, said, complained)

    def order(self, *orders: Order) -> None:
        """Run these commands one after another, beside the conductor."""
        if not orders:
            return
        first, *others = orders

        def begin() -> None:
            self.start(first.role, *first.arguments, stdin=first.stdin).then = lambda code: self.order(*others)

        if first.after:
            self.later(first.after, begin)
        else:
            begin()

    def carry_out(self, order: Order) -> None:
        """Run a command to its end."""
        self.command(order.role, *order.arguments, stdin=order.stdin)

    def start(
        self, role: str, *arguments: str, queue: str | None = None, stdin: int | str = "", until_done: str = ""
    ) -> Live:
        """Start `longshore` beside the conductor. `stdin` is a text or a file descriptor."""
        log = self.folder / f"{role}-{next(self.numbers)}.log"
        began = self.moments.tick()
        given = log.with_suffix(".given")
        if isinstance(stdin, str):
            given.write_text(stdin)
        with ExitStack() as files:
            read = files.enter_context(given.open("rb")).fileno() if isinstance(stdin, str) else stdin
            out, errors = (files.enter_context(file.open("wb")) for file in (log.with_suffix(".out"), log))
            environment = self._variables(role, queue)
            streams = (read, out.fileno(), errors.fileno())
            started = self._warm.start(arguments, cwd=self.folder, env=environment, streams=streams)
        live = Live(role, started, self.queues[queue or self.main.url], began, log, until_done)
        self.live.append(live)
        for fault in self.wide_faults:
            self.notes.write(FaultSwitched(fault=fault, on=True, process=live.name))
        return live

    def _variables(self, role: str, queue: str | None) -> dict[str, str]:
        machine = self.chance.choice(self.machines)
        return self._environment | {
            ROLE: role,
            "LONGSHORE_QUEUE": queue or self.main.url,
            "XDG_CACHE_HOME": str(machine),
        }

    def of_role(self, *roles: str) -> list[Live]:
        """Return the live processes of these roles."""
        return [each for each in self.live if each.role in roles]

    def poll(self) -> None:
        """Note the processes that have ended."""
        for each in [live for live in self.live if live.started.poll() is not None]:
            self.live.remove(each)
            code = each.started.wait(0)
            self.moments.tick()
            ended = ProcessEnded(process=each.name, code=code, until_done=each.until_done, queue=each.queue)
            self.notes.write(ended)
            each.then(code)

    # Faults

    def fault(self, name: str, on: bool, *victims: Live) -> None:
        """Note that a fault is switched on or off, for these processes; for all live ones if none is named."""
        if not victims:
            (self.wide_faults.add if on else self.wide_faults.discard)(name)
        self.on[name] = max(0, self.on[name] + (1 if on else -1))
        for process in itertools.chain.from_iterable(each.names() for each in victims or self.live):
            self.notes.write(FaultSwitched(fault=name, on=on, process=process))

    def drawn(self, faults: Sequence[str]) -> str:
        """Draw one of these faults. A guide prefers those under which little was reached."""
        weights = None if self._guide is None else self._guide.shares(faults)
        (fault,) = self.chance.choices(faults, weights)
        if self._guide is not None:
            self._guide.drawn(fault)
        return fault

    def settles(self, live: Live) -> bool:
        """Return whether a process is in the middle of a call of `settle`."""
        calls = self._history(live)
        under_way = {each.call for each in calls if isinstance(each, Called) and each.verb == "settle"}
        return bool(under_way - {each.call for each in calls if isinstance(each, Answered)})

    def has_entered(self, live: Live) -> bool:
        """Return whether a handler of a worker has begun."""
        return any(isinstance(each, HandlerEntered) for each in self._history(live))

    def has_called(self, live: Live) -> bool:
        """Return whether a process has called its queue."""
        return any(isinstance(each, Called) for each in self._history(live))

    def given_jobs(self, live: Live) -> bool:
        """Return whether a process was given jobs."""
        return any(isinstance(each, Answered) and each.leases for each in self._history(live))

    def wait_for(self, happened: Callable[[], bool], seconds: float) -> None:
        """Wait until `happened` returns True, for so many seconds at most. The processes go on meanwhile."""
        until, pause = time.monotonic() + seconds, threading.Event()
        while not happened() and time.monotonic() < until:
            pause.wait(0.02)

    def _go_on_until(self, happened: Callable[[], bool], seconds: float) -> bool:
        """Do what is due until `happened` returns True, for so many seconds at most; return whether it does."""
        until, pause = time.monotonic() + seconds, threading.Event()
        while not happened():
            if time.monotonic() >= until:
                return False
            self._act_on_what_is_due()
            self.poll()
            pause.wait(0.01)
        return True

    def when(self, happened: Callable[[], bool], act: Callable[[], None], *, seconds: float) -> None:
        """Call `act` between two steps once `happened` returns True, or after so many seconds."""
        until = time.monotonic() + seconds

        def look() -> None:
            if self._hurry or happened() or time.monotonic() >= until:
                act()
            else:
                self.later(0.2, look)

        self.later(0, look)

    def _history(self, live: Live) -> Sequence[AnyEvent]:
        file = self.histories / f"{live.name}.jsonl"
        return read_history(file).events if file.exists() else ()

    @property
    def refuses_rows(self) -> bool:
        """Whether the sink of the records refuses some: the database does, a folder takes all."""
        return self._records is not None

    def top(self, run: str) -> QueueFigures | None:
        """Return what `longshore top` shows of a run; None if the queue has trouble or is too slow."""

        async def look() -> QueueFigures:
            async with asyncio.timeout(_TOP_SECONDS):
                queue = await open_queue(self.main.url)
                try:
                    return await FiguresReader(queue, run, SystemClock()).look()
                finally:
                    await queue.close()

        with ThreadPoolExecutor(1) as thread:
            seen = thread.submit(asyncio.run, look())
            self._go_on_until(seen.done, 2 * _TOP_SECONDS)
            try:
                return seen.result()
            except (QueueError, UsageError, TimeoutError):
                return None

    def faults(self) -> Mapping[str, Switch]:
        """Return the faults that only these media have."""
        return {**self.main.faults(), **(self._records.faults() if self._records is not None else {})}

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Stop all processes of the trial, if the medium can be copied only then."""
        stopped = [*map(psutil.Process, self._running())] if self.main.saved_at_rest else []
        for each in stopped:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        pause = threading.Event()
        while any(map(_runs, stopped)):
            pause.wait(0.01)
        try:
            yield
        finally:
            for each in stopped:
                with suppress(psutil.NoSuchProcess):
                    each.resume()

    def _running(self) -> Iterator[int]:
        for live in self.live:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(live.pid)
                yield from (each.pid for each in (process, *process.children(recursive=True)) if _runs(each))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` in so many seconds, between two steps."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self.numbers), act))

    def _act_on_what_is_due(self) -> None:
        while self._later and (self._hurry or self._later[0][0] <= time.monotonic()):
            _, _, act = heapq.heappop(self._later)
            self.moments.tick()
            act()

    # The course of a trial

    def conduct(
        self,
        seconds: float,
        steps: Mapping[Callable[[Trial], None], float],
        *,
        least: int = 0,
        guide: Guide | None = None,
    ) -> None:
        """Draw steps by their weights until the time is over and at least so many were taken: a machine may be busy.

        A guide changes the weights for the sake of the matrix.
        """
        self._guide = guide
        until, pause, taken = time.monotonic() + seconds, threading.Event(), itertools.count()
        while next(taken) < least or time.monotonic() < until:
            self._go_on_until(lambda: len(self.of_role(*ORDERED)) < MOST_ORDERS, DRAIN_SECONDS)
            self.moments.tick()
            self._act_on_what_is_due()
            self.poll()
            active = [fault for fault, times in self.on.items() if times]
            coming = {each.brings for each in self.live if each.brings}
            weights = list(steps.values()) if guide is None else guide.weights(steps, active, coming)
            (step,) = self.chance.choices(list(steps), weights)
            step(self)
            if guide is not None:
                guide.taken(step, active)
            pause.wait(self.chance.uniform(0.02, 0.25))

    def verdict(self) -> Verdict:
        """End all faults, let able workers finish everything, observe every queue, and check the histories."""
        began = time.monotonic()
        drained = self._drain()
        self.remarks.append(f"drained in {time.monotonic() - began:.0f} s")
        self.moments.tick()
        seen = [self._observed(url, name, drained=drained) for url, name in self.queues.items()]
        histories = read_histories(self.histories)
        return Verdict(check(histories, seen), coverage(histories), self.remarks, self.folder)

    def _observed(self, url: str, name: str, *, drained: bool) -> QueueSeen:
        stored = self.main.stored() if url == self.main.url else None

        def command(*arguments: str) -> CompletedProcess[str]:
            return self.command("reader", *arguments)

        return observe(name, url, command, stored, drained=drained)

    def _drain(self) -> bool:
        """Switch all faults off, end everything, and let able workers finish every queue.

        Return whether everything should be finished now: they are, or they have had all the time that they need.
        """
        self._hurry = True
        self._act_on_what_is_due()
        self.switches.all_off()
        self.restore_handlers()
        for each in self.of_role("worker", "leaver", "waiter", "fleet"):
            each.until_done = ""
            self.signal(each, signal.SIGINT)
        self._await_all(40)
        self._kill_all()
        # A delay that was set while the clock was ahead ends when the clock gets there.
        self.clock.set(3600)
        for act in self.before_the_drain:
            act()
        until = time.monotonic() + self.patience
        for url in self.queues:
            if asyncio.run(exists(url)):
                self._finish(url, until)
        finished = self._await_all(self.patience)
        self._kill_all()
        return finished or self.patience >= DRAIN_SECONDS

    def _kill_all(self) -> None:
        """Kill the processes that are left, so that nothing changes during the observation."""
        if self.live:
            names = ", ".join(f"{each.name} ({each.log.name})" for each in self.live)
            self.remarks.append(f"had to be killed at the end: {names}")
        for each in self.live:
            self.fault("SIGKILL", True, each)
            self.signal(each, signal.SIGKILL)
        self._await_all(30)

    def _finish(self, url: str, until: float) -> None:
        """Start a worker that finishes a queue. If a job makes it end, another one takes its place."""

        def again(code: int) -> None:
            if code and time.monotonic() < until:
                self._finish(url, until)

        # Some jobs take seconds, and only sleep.
        able = ("--until-done", "--concurrency", "32")
        self.start("finisher", "work", "pages.py", *able, queue=url).then = again

    def _await_all(self, seconds: float) -> bool:
        """Wait until no process is left and nothing is due later; return whether that is so."""
        return self._go_on_until(lambda: not self.live and not self._later, seconds)

    def stop_for(self, live: Live, seconds: float) -> None:
        """Stop a process for this long, also while the conductor waits for another one: that may wait for a lock."""
        self.signal(live, signal.SIGSTOP)
        self.still.append(live)
        going_on = threading.Timer(seconds, self.go_on, (live,))
        going_on.daemon = True
        going_on.start()

    def go_on(self, live: Live) -> None:
        """Let a process go on that was stopped, if it stands still."""
        with suppress(ValueError):
            self.still.remove(live)
            self.signal(live, signal.SIGCONT)

    def signal(self, live: Live, number: signal.Signals) -> None:
        """Send a signal to a process, if it is still there."""
        with suppress(ProcessLookupError):
            os.kill(live.pid, number)


def _runs(process: psutil.Process) -> bool:
    """Return whether a process is there and not stopped."""
    try:
        return process.status() not in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.NoSuchProcess:
        return False


def _environment(folder: Path, twin: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
    root = HERE.parents[1]
    paths = map(str, (HERE / "recorded", root, root / "src"))
    return ours | {
        "PYTHONPATH": os.pathsep.join(paths),
        "NO_COLOR": "1",
        FOLDER: str(folder),
        TWIN: twin,
        "LONGSHORE_KEEP_PAGES": "true",
    }
