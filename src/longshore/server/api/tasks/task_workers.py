"""The plain workers that claim tasks: their presence, and the tasks of those that died.

A Python worker registers itself and brings back the jobs of dead workers. A plain worker only claims and settles, so
the server does both for it, not more often than needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from longshore.extensions.find import find
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.extensions.shared_state import SharedState
from longshore.extensions.worker_orders import WorkerOrder, take_order
from longshore.lease import WorkerId
from longshore.server.served import Served

_PRESENT = timedelta(seconds=90)
"""How long a worker is shown as alive after its last claim or renewal: longer than one long poll."""
_REGISTER_SECONDS, _REAP_SECONDS = 20.0, 5.0
_MOST_KNOWN = 10_000


@dataclass
class _Known:
    kinds: tuple[str, ...] | None
    """The types that it claims; None for all."""
    registered_at: float = -math.inf


class TaskWorkers:
    """The plain workers of one server."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._known: dict[WorkerId, _Known] = {}
        self._reaped_at = -math.inf

    async def seen(self, label: str, key_id: str, kinds: Iterable[str] | None) -> None:
        """Register a worker that claims as present, unless that was done a moment ago."""
        types = None if kinds is None else tuple(sorted(kinds))
        worker = self._served.tokens.holder(_presence(label), key_id)
        known = self._known.get(worker)
        if known is None or known.kinds != types:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[worker] = _Known(types)
        await self._register(worker, known)

    async def renewed(self, label: str, key_id: str) -> None:
        """Register a worker that renews as present, unless that was done a moment ago."""
        worker = self._served.tokens.holder(_presence(label), key_id)
        await self._register(worker, self._known.setdefault(worker, _Known(None)))

    async def _register(self, worker: WorkerId, known: _Known) -> None:
        registry = find(self._served.queue, WorkerRegistry)
        now = self._served.clock.monotonic()
        if registry is not None and now - known.registered_at >= _REGISTER_SECONDS:
            known.registered_at = now
            await registry.register(worker, _PRESENT, WorkerInfo(slots=1, kinds=known.kinds))

    async def order(self, label: str) -> WorkerOrder | None:
        """Return the order that a person gave to the worker with this label, once; None if there is none."""
        state = find(self._served.queue, SharedState)
        return None if state is None else await take_order(state, label, _presence(label).public_incarnation)

    async def reap(self) -> None:
        """Bring back the tasks of dead workers, unless that was done a moment ago."""
        now = self._served.clock.monotonic()
        if now - self._reaped_at >= _REAP_SECONDS:
            self._reaped_at = now
            await self._served.queue.reap()


def _presence(label: str) -> WorkerId:
    """Return the name under which a worker is listed. It holds no lease: each claim has a holder of its own."""
    return WorkerId(label, f"{label}/plain")
