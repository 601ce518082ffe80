"""Notice that the queue has another version of the published code that this worker runs, and drain."""

from __future__ import annotations

from collections.abc import Callable

from longshore.errors import QueueError
from longshore.extensions.find import find
from longshore.extensions.published_code import SHORT, version_for
from longshore.extensions.shared_state import SharedState
from longshore.worker.context import WorkerContext


class VersionFollower:
    """Compares the version of this worker with the one that its run should have, as often as it looks for work."""

    def __init__(self, context: WorkerContext, replaced: Callable[[str], None]) -> None:
        """`replaced` is called once, with what happened."""
        self._fingerprint = context.config.published
        self._run = context.config.run
        self._every = context.config.poll_interval.total_seconds()
        self._clock = context.clock
        self._state = find(context.queue, SharedState) if self._fingerprint else None
        self._replaced = replaced

    async def run(self) -> None:
        """Look until there is another version, or until cancelled."""
        if self._state is None:
            return
        while True:
            try:
                found = await version_for(self._state, self._run)
            except QueueError:
                found = self._fingerprint  # the claimer reports a queue that does not answer
            if found != self._fingerprint:
                what = "the published handlers were withdrawn"
                if found is not None:
                    what = f"version {found[:SHORT]} of the handlers takes the place of {self._fingerprint[:SHORT]}"
                self._replaced(what)
                return
            await self._clock.sleep(self._every)
