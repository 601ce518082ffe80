"""The assembly of a worker: which parts it has, and what each is made of.

claimer ──leases──▶ held leases ──▶ executors ──▶ pending settlements ──▶ settler
   │                     ▲                                │                  │
   └─────────────────────┴────── events ──────────────────┴──────────────────┘
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from longshore.clock import SystemClock
from longshore.extensions.published_code import SHORT
from longshore.handlers.handler import Handler
from longshore.handlers.load import handler_version
from longshore.lease import Want
from longshore.media import open_queue
from longshore.observe.traces import traced
from longshore.pacing.worker_limiter import WorkerLimiter
from longshore.worker.children.child_pool import ChildPool
from longshore.worker.context import WorkerContext
from longshore.worker.kit.outbox import outbox_of
from longshore.worker.kit.own_hosts import RunHosts
from longshore.worker.kit.rate_policy import rate_policy
from longshore.worker.kit.tools import WorkerTools
from longshore.worker.leases.renewal import Renewal
from longshore.worker.lifecycle.handler_checks import HandlerChecks
from longshore.worker.lifecycle.order_follower import OrderFollower
from longshore.worker.lifecycle.services import Services
from longshore.worker.lifecycle.shutdown import Shutdown
from longshore.worker.lifecycle.version_follower import VersionFollower
from longshore.worker.loop.claimer import Claimer
from longshore.worker.loop.event_responder import EventResponder
from longshore.worker.loop.executor import Executor
from longshore.worker.loop.executor_pool import ExecutorPool
from longshore.worker.loop.idleness import Idleness
from longshore.worker.loop.job_source import JobSource
from longshore.worker.loop.job_spacing import JobSpacing
from longshore.worker.loop.outage import Outage
from longshore.worker.loop.partition_scope import Everywhere, PartitionScope
from longshore.worker.loop.prefetch import Prefetch
from longshore.worker.loop.reaper import Reaper
from longshore.worker.loop.schedule_poller import MakeStarts, SchedulePoller
from longshore.worker.loop.settlement_writer import SettlementWriter
from longshore.worker.loop.settler import Settler
from longshore.worker.loop.start_gate import Gate, Gatekeeper
from longshore.worker.loop.stop_check import StopCheck
from longshore.worker.loop.stop_conditions import stop_conditions_in
from longshore.worker.status.blockage import Blockage
from longshore.worker.status.progress_reporter import ProgressReporter
from longshore.worker.status.worker_status import StatusWatcher
from longshore.wrappers.worker_queue import WorkerQueue


class Parts:
    """The parts of one worker, made and connected. Nothing runs yet."""

    def __init__(
        self,
        context: WorkerContext,
        handlers: Mapping[str, Handler],
        gate: Gate | None,
        watcher: StatusWatcher | None,
        starts: MakeStarts | None,
    ) -> None:
        config, clock, queue, in_flight = context.config, context.clock, context.queue, context.in_flight
        incarnation, kinds = config.worker.incarnation, frozenset(handlers)
        self.context = context
        self.handlers = handlers
        self.shutdown = shutdown = Shutdown(context)
        self.services = Services(shutdown.fail)
        self.blockage = Blockage()

        mark = secrets.token_hex(8)
        self.outbox = outbox_of(config.kit, incarnation) if queue.traits.keeps_traces else None
        kit = config.kit if self.outbox is None else replace(config.kit, outbox=str(self.outbox.folder))
        self.limiter = WorkerLimiter(rate_policy(kit), queue, clock)
        self.tools = WorkerTools(
            kit,
            incarnation,
            self.limiter.limiter,
            clock,
            mark=mark,
            tell=context.reporter.proxies_wait,
            is_submitted=RunHosts(queue).is_submitted,
        )
        self.children = ChildPool(
            config.handler_file,
            mark,
            label=config.worker.label,
            level=config.log_level,
            kit=kit,
            shared=self.tools,
        )
        self.spacing = JobSpacing(config.concurrency, config.delay, clock)
        executor = partial(
            Executor,
            in_flight.leases,
            handlers,
            self.children,
            self.tools,
            in_flight.pending.put,
            self.spacing,
            shutdown.fail,
            config.published[:SHORT] or handler_version(config.handler_file),
        )
        self.executors = ExecutorPool(in_flight.leases, executor, self.services.start)

        prefetch, idleness = Prefetch(config, in_flight, self.spacing), Idleness(clock)
        events = EventResponder(context, shutdown, self.executors, prefetch, idleness, self.blockage)
        self.writer = SettlementWriter(queue, self.tools.records)
        outage = Outage(clock, shutdown.patience)
        self.settler = Settler(self.writer, in_flight.pending, clock, events, outage)
        self.renewal = Renewal(context, events, outage)
        self.gatekeeper = Gatekeeper(gate, clock, events)
        instances = dict.fromkeys(each.instance for each in handlers.values() if each.instance is not None)
        self.handler_checks = HandlerChecks(list(instances), self.blockage, clock)
        self.reaper = Reaper(context, outage)
        self.orders = OrderFollower(context, handlers, shutdown.ordered)
        self.versions = VersionFollower(context, shutdown.replaced)
        self.schedule_poller = SchedulePoller(starts, queue, clock, incarnation)

        want = Want(worker=config.worker, lease=config.lease, run=config.run, kinds=kinds, partitions=config.partitions)
        self.scope: PartitionScope = (
            config.scope.join(want, queue, clock, lambda: in_flight.partitions)
            if config.scope is not None
            else Everywhere(config.partitions)
        )
        source = JobSource(context, want, self.scope, self.limiter.limiter, events, outage, shutdown.stopping)
        conditions = (*config.stop, *stop_conditions_in(config.handler_file))
        self.stop_check = StopCheck(context, conditions, kinds, source, idleness, shutdown, self.blockage)
        self.claimer = Claimer(
            context, source, prefetch, self.stop_check, self.reaper, self.gatekeeper, events, shutdown.stopping
        )
        self.progress = ProgressReporter(
            context, self.executors, self.scope, self.blockage, self.tools.figures, watcher
        )

    async def second_writer(self) -> SettlementWriter:
        """Open the queue once more, for the event loop of another thread."""
        context = self.context
        queue = await open_queue(context.config.queue_url)
        return SettlementWriter(
            WorkerQueue(traced(queue), SystemClock(), same_worker=context.queue), self.tools.records
        )
