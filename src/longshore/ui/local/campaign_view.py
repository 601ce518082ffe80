"""The view of a run that this machine works on: progress, resting proxies, closed hosts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from longshore.errors import QueueUnavailableError
from longshore.queue import Count, Queue
from longshore.runs.local.campaign import Campaign, Crew
from longshore.runs.watch.current_rate import CurrentRate
from longshore.ui.fleet.board import FleetBoard, ProxySummary
from longshore.ui.local.host_notices import HostNews
from longshore.ui.progress import RunProgress


@dataclass
class CampaignView:
    """The progress of a run, with a sentence when its proxies rest or its hosts are closed.

    The counts come from the queue. Only the workers' status reports say that their proxies rest.
    """

    queue: Queue
    campaign: Campaign
    shown: RunProgress

    def begin(self, crew: Crew) -> None:
        """Follow these workers, which are about to start."""
        self._clock = crew.clock
        self._board = FleetBoard(crew.clock, crew.posts, None, self.campaign.run, self.campaign.workers)
        self._proxies = ProxySummary(self._board, self.say)
        self._hosts = HostNews(self.queue, self.campaign.run, crew.clock, self.say)
        self._rate = CurrentRate()

    def hear(self, worker: str, line: bytes) -> None:
        """Take a status report of a worker."""
        self._board.hear(worker, line)

    def say(self, text: str) -> None:
        """Tell the person a sentence."""
        self.shown.say(text)

    async def update(self, count: Count | None) -> None:
        """Show the counts of the run; None if the queue did not answer this time."""
        if count is not None:
            self._rate.note(self._clock.monotonic(), count.total - count.remaining, count.remaining)
            # The hosts of the pending jobs are read from the same queue, which may not answer now.
            with suppress(QueueUnavailableError):
                if (opens := await self._hosts.look(count)) is not None:
                    self._rate.wait_until(opens)
                self.shown.show(count, self._rate)
        self._proxies.look()

    def finish(self, count: Count) -> None:
        """Show the counts after the last worker has ended."""
        self.shown.show(count, self._rate)
