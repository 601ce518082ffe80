"""Metrics of the queue and the server for Prometheus, and the number of jobs for a scaler.

Both come from the snapshots of the live reader, so that a scrape costs the queue no more than a look at the web page.
"""

from __future__ import annotations

import asyncio

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromQuery

from longshore.errors import LongshoreError
from longshore.observe.metrics import CONTENT_TYPE, Metrics
from longshore.queue import totals
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.api.runs import FiguresOfAll
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope
from longshore.server.live.live_reader import LiveReader, WatchedTopic
from longshore.server.live.topics import Figures, open_topic, topic_name
from longshore.server.served import Served
from longshore.top.queue_metrics import add_queue

_READ = {SCOPE: (Scope.READ,)}


class AutoscaleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs are left to do, for a scaler that divides them by the jobs which one worker should have."""

    jobs: int
    """Pending and claimed jobs: without the claimed ones, a scaler would stop the workers that are busy with them."""
    pending: int
    claimed: int


class MetricsRoutes(Controller):
    """The route that Prometheus scrapes."""

    include_in_schema = False

    @get("/metrics", opt=_READ)
    async def metrics(self, request: ApiCall, served: ServedQueue, reader: FiguresOfAll) -> Response[bytes]:
        """Return the metrics, as far as the key reaches; of a queue that does not answer, those of the last look."""
        metrics, topic = Metrics(), _topic(request.user, served, reader)
        answers = True
        try:
            await topic.at_once()
        except LongshoreError:
            answers = False
        snapshot = topic.last
        up = answers and snapshot is not None and not snapshot.trouble
        metrics.gauge("queue_up", "1 if the queue answered at the last look.", float(up))
        if snapshot is not None and isinstance(snapshot.value, Figures):
            add_queue(metrics, snapshot.value.board)
        await asyncio.to_thread(metrics.add_process, "server", served.traces.data_folder)
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})


class AutoscaleRoutes(Controller):
    """The route that a scaler asks."""

    tags = ("autoscale",)

    @get("/autoscale", opt=_READ)
    async def autoscale(
        self,
        request: ApiCall,
        served: ServedQueue,
        reader: FiguresOfAll,
        run: FromQuery[str | None] = None,
        kind: FromQuery[str | None] = None,
    ) -> AutoscaleAnswer:
        """Return how many jobs are left: of a run, of a kind, or of all. An unknown run or kind has none."""
        figures = (await _topic(request.user, served, reader).at_once()).value
        assert isinstance(figures, Figures)  # noqa: S101  the topic is the whole queue
        count = totals([each for each in figures.board.counts if run in (None, each.run) and kind in (None, each.kind)])
        return AutoscaleAnswer(jobs=count.remaining, pending=count.pending, claimed=count.claimed)


def _topic(access: Access, served: Served, reader: LiveReader) -> WatchedTopic:
    name = topic_name(access)
    return reader.topic(name, lambda: open_topic(name, served.queue, access, served.clock))
