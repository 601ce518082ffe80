"""The server: a queue over HTTP beside the same queue used directly and beside Celery, long polls, the web page.

Servers, workers, databases and clients share the machine. Every contestant has a fresh database at every turn.
"""

from __future__ import annotations

import tempfile
from functools import partial
from itertools import chain
from pathlib import Path

from tests.services.postgres import PostgresServer

from benchmarks import celery_peer, http_medium, http_polls, postgres_medium
from benchmarks.measure import Figure, by_turns, steady_rate, together
from benchmarks.postgres_database import fresh_database, settle_down, start_server

CELERY_FEWER = 10
"""By how much fewer tasks Celery gets."""


def drain(share: float) -> list[Figure]:
    """Two processes, PostgreSQL with fsync, batches of 100; the next batch is claimed while the last is settled.

    Over HTTP a server process is between them and the database. Celery has one worker with two processes, on Redis as
    it comes: first with its defaults (a task that is under way when the worker dies is lost), then with results and
    late acknowledgement, which promises about what Longshore does.
    """
    jobs = max(20_000, int(100_000 * share))
    with start_server() as postgres, tempfile.TemporaryDirectory() as place:
        contestants = {
            "the medium used directly": partial(_direct, postgres, jobs, 100),
            "over HTTP": partial(_over_http, postgres, jobs, 100),
        }
        if not celery_peer.available():
            return [*_compared("drain", by_turns(contestants)), Figure("drain: Celery", None, celery_peer.MISSING)]
        folder = Path(place)
        with celery_peer.redis_server(folder) as redis:
            for title, late in (("Celery, defaults", False), ("Celery, results and late acknowledgement", True)):
                contestants[title] = partial(celery_peer.drain, redis, folder, jobs // CELERY_FEWER, late=late)
            return _compared("drain", by_turns(contestants))


def single(share: float) -> list[Figure]:
    """Two processes, one job at a time: settle it and claim the next, in one call over HTTP, in two directly."""
    jobs = max(1_500, int(6_000 * share))
    with start_server() as postgres:
        contestants = {
            "the medium used directly": partial(_direct, postgres, jobs, 1),
            "over HTTP": partial(_over_http, postgres, jobs, 1),
        }
        return _compared("batch 1", by_turns(contestants))


def polls(share: float) -> list[Figure]:
    """200 long polls wait: what the server uses, and from the begin of a submission to the answer that has the job."""
    with (
        start_server() as postgres,
        fresh_database(postgres) as url,
        tempfile.TemporaryDirectory() as place,
        http_medium.serving(url, Path(place)) as (server, key, process),
    ):
        seconds, jobs = max(10.0, 60 * share), max(100, int(400 * share))
        found = http_polls.measure(server, key, process, seconds=seconds, jobs=jobs)
    return [
        Figure("200 idle long polls", 100 * found.core, "% of a core"),
        Figure("a submitted job reaches a worker, median", found.median_ms, "ms"),
        Figure("a submitted job reaches a worker, p99", found.p99_ms, "ms"),
    ]


PARTS = {"drain": drain, "single": single, "polls": polls}


def _direct(server: PostgresServer, jobs: int, batch: int) -> float:
    with fresh_database(server) as url:
        postgres_medium.submit(url, jobs)
        settle_down(url)
        return steady_rate([*chain.from_iterable(together(postgres_medium.drain, url, batch))])


def _over_http(server: PostgresServer, jobs: int, batch: int) -> float:
    with fresh_database(server) as url, tempfile.TemporaryDirectory() as place:
        postgres_medium.submit(url, jobs)
        settle_down(url)
        with http_medium.serving(url, Path(place)) as (api, key, _):
            return steady_rate([*chain.from_iterable(together(http_medium.drain, api, key, batch))])


def _compared(what: str, rates: dict[str, float]) -> list[Figure]:
    ours = rates["the medium used directly"]
    figures = [
        Figure(f"{what}: {name}", value, "jobs/s", "the medium used directly", value / ours)
        for name, value in rates.items()
    ]
    celery = {name: value for name, value in rates.items() if name.startswith("Celery")}
    over_http = rates["over HTTP"]
    return figures + [
        Figure(f"{what}: over HTTP beside {name}", over_http, "jobs/s", name, over_http / value)
        for name, value in celery.items()
    ]
