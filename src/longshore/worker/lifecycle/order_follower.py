"""Follow the orders that people give to this worker through the queue, and tell submitters which payloads it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from longshore.errors import LongshoreError, QueueError
from longshore.extensions.find import find
from longshore.extensions.kind_schemas import publish_schemas
from longshore.extensions.shared_state import SharedState
from longshore.extensions.worker_orders import WorkerOrder, order_for
from longshore.handlers.handler import Handler
from longshore.worker.context import WorkerContext

_QUICK_LOOK, _SLOW_LOOK = 10.0, 30.0
"""Seconds between two looks for an order, on media where reading is quick and on the others."""

log = structlog.get_logger()


class OrderFollower:
    """Reads the orders for one worker until there is one."""

    def __init__(
        self, context: WorkerContext, handlers: Mapping[str, Handler], obey: Callable[[WorkerOrder], None]
    ) -> None:
        self._worker = context.config.worker
        self._clock = context.clock
        self._state = find(context.queue, SharedState)
        self._quick = context.queue.traits.quick_shared_state
        self._handlers = handlers
        self._obey = obey

    async def run(self) -> None:
        """Publish what the handlers take, then look for orders until cancelled."""
        if self._state is None:
            return
        if self._quick:
            # Not on other media, for which every change is a file or a commit.
            await self._publish(self._state)
        last: WorkerOrder | None = None
        while True:
            await self._clock.sleep(_QUICK_LOOK if self._quick else _SLOW_LOOK)
            try:
                order = await order_for(self._state, self._worker.label, self._worker.public_incarnation)
            except QueueError:
                continue  # the claimer reports a queue that does not answer
            if order is not None and order is not last:
                last = order
                self._obey(order)

    async def _publish(self, state: SharedState) -> None:
        try:
            await publish_schemas(state, {kind: each.payload_schema() for kind, each in self._handlers.items()})
        except LongshoreError as error:
            # Over HTTP only an admin key may publish; jobs are then created unchecked, and the handler checks them.
            log.debug("The payloads of the handlers could not be published", error=str(error))
