"""One worker inside this program, for handlers that no other process can import: those of a notebook or a prompt.

It runs in a thread with an event loop of its own, so that the program's own loop may be busy or blocked. There is no
process to kill: a handler that blocks cannot be ended at its timeout, and one that crashes takes the program along.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import timedelta

from longshore.clock import Clock, SystemClock
from longshore.fleet.supervise.supervisor import SupervisedWorker, WorkerCommand, WorkerExit
from longshore.handlers.handler import Handler
from longshore.lease import WorkerId
from longshore.media import open_queue
from longshore.observe.logs import logs_to
from longshore.runs.local.campaign import Campaign
from longshore.system.loop_thread import LoopThread
from longshore.system.private_files import make_private
from longshore.worker.config import WorkerConfig
from longshore.worker.kit.config import KitConfig
from longshore.worker.lifecycle.egress import guard
from longshore.worker.loop.stop_conditions import RunFinished, Snapshot
from longshore.worker.status.counters import Exit, WorkerReport
from longshore.worker.worker import work


class OwnWorker:
    """The one worker of a campaign whose handlers only this program has."""

    def __init__(self, campaign: Campaign, handlers: Mapping[str, Handler]) -> None:
        self.clock: Clock = SystemClock()
        self.posts: dict[str, SupervisedWorker] = {}
        self._campaign = campaign
        self._handlers = handlers
        self._asked = threading.Event()
        self._working: Future[WorkerReport] | None = None

    async def run(self) -> list[WorkerExit]:
        """Work until the run is over, or until `stop`; return how it ended."""
        log = self._campaign.logs / "worker.log"
        make_private(log.parent)
        ending = WorkerExit(WorkerCommand("worker", (), log, {}))
        with log.open("a", encoding="utf-8") as stream, logs_to(stream):
            thread = LoopThread("longshore worker")
            try:
                self._working = asyncio.run_coroutine_threadsafe(self._work(), thread.loop)
                report = await asyncio.wrap_future(self._working)
            finally:
                await asyncio.to_thread(thread.close)
        ending.exit_code, ending.done = report.exit_code, report.exit_code == Exit.OK
        return [ending]

    def stop(self) -> None:
        """Finish the attempts under way and stop; on the second call, end them. Their jobs come back with the lease."""
        if self._asked.is_set() and self._working is not None:
            self._working.cancel()
        self._asked.set()

    async def _work(self) -> WorkerReport:
        campaign, settings = self._campaign, self._campaign.settings
        worker = WorkerId.new(settings.worker_id)
        config = WorkerConfig(
            queue_url=settings.queue,
            handler_file=campaign.handler_file,
            worker=worker,
            lease=timedelta(seconds=campaign.lease_seconds),
            run=campaign.run,
            concurrency=settings.concurrency,
            delay=settings.delay,
            batch_size=settings.batch_size,
            poll_interval=timedelta(seconds=campaign.poll_interval),
            stop=(RunFinished(campaign.run), _Asked(self._asked)),
            kit=KitConfig.of(settings, worker),
        )
        # A queue of this loop. Given, not opened by the worker: its watchdog would end a program that is held up.
        queue = await open_queue(settings.queue)
        try:
            return await work(config, handlers=self._handlers, queue=queue, gate=guard(settings))
        finally:
            await queue.close()


class _Asked:
    """The stop condition that the program was asked to stop."""

    def __init__(self, asked: threading.Event) -> None:
        self._asked = asked

    def check(self, snapshot: Snapshot) -> str | None:
        del snapshot
        return "the program was asked to stop" if self._asked.is_set() else None
