"""`longshore hosts`: show the request rate of each host, and which hosts are closed."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.pacing.host_rate import HostRate
    from longshore.settings import Settings


def hosts(json: options.Json = False, queue: options.Queue = None, debug: options.Debug = None) -> None:
    """Show how fast each host is asked, when it last refused a request, and until when and why it is closed.

    The rate is learned from the host's answers and shared by all workers of the queue; on a queue in a folder or a
    repository, by all workers of this machine. The ceiling is the rate that the host seems to allow.
    """
    from longshore.settings import resolve
    from longshore.ui.output import write_json

    settings = resolve({"queue": queue, "debug": debug})
    now, known = asyncio.run(_look(settings))
    if json:
        write_json([_as_json(name, known[name], now) for name in sorted(known)])
    else:
        _show(known, now)


async def _look(settings: Settings) -> tuple[float, dict[str, HostRate]]:
    from contextlib import closing

    from longshore.clock import SystemClock
    from longshore.pacing.choose_store import rate_store_for
    from longshore.runs.open_queue import open_existing

    async with open_existing(settings) as queue:
        with closing(rate_store_for(queue, SystemClock())) as store:
            return await store.all()


def _as_json(name: str, rate: HostRate, now: float) -> dict[str, Any]:
    host, _, identity = name.partition(" via ")
    closed = rate.closed_until > now
    return {
        "host": host,
        "identity": identity or None,
        "rate": round(rate.rate, 4),
        "ceiling": round(rate.ceiling, 4) or None,
        "crawl_delay": rate.crawl_delay or None,
        "answers": rate.answers,
        "refusals": rate.refusals,
        "last_refusal": rate.last_refusal or None,
        "last_status": rate.last_status if rate.last_status > 0 else None,
        "closed_until": rate.closed_until if closed else None,
        "why": rate.why if closed else None,
    }


def _show(known: dict[str, HostRate], now: float) -> None:
    from longshore.observe.statistics import about
    from longshore.pacing.contract import refusal_in_words
    from longshore.ui.output import write
    from longshore.ui.tables import write_table
    from longshore.ui.words import moment

    if not known:
        write("No host was asked yet.")
        return
    rows = []
    for name in sorted(known):
        it = known[name]
        closed = it.closed_until > now
        refused = f"{refusal_in_words(it.last_status)}, {about(now - it.last_refusal)} ago" if it.refusals else ""
        rows.append(
            (
                name,
                # The rate in use: robots.txt may ask for less than the learned rate.
                _per_second(min(it.rate, 1 / it.crawl_delay) if it.crawl_delay else it.rate),
                _per_second(it.ceiling) if it.ceiling else "",
                f"{it.answers:,}",
                f"{it.refusals:,}",
                refused,
                moment(it.closed_until) if closed else "",
                it.why if closed else f"robots.txt: {it.crawl_delay:g} s apart" if it.crawl_delay else "",
            )
        )
    columns = ("host", "rate", "ceiling", "answers", "refused", "last refusal", "closed until", "why")
    write_table(columns, rows, right=("rate", "ceiling", "answers", "refused"), cut=("why",), keep=("host",))
    if sys.stdout.isatty():
        # On a narrow terminal the table cuts the reasons off.
        for row in rows:
            if row[6]:
                write(f"{row[0]} is closed until {row[6]}: {row[7]}.")


def _per_second(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s"
