"""`longshore hosts`: what is known of each host (F4)."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from longshore.clock import SystemClock
from longshore.media import open_queue
from longshore.pacing.choose_store import rate_store_for
from longshore.pacing.host_rate import AnswerCounts, RatePolicy, unknown
from longshore.pacing.rate_learning import fold


@pytest.fixture(autouse=True)
def own_cache(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine knows of hosts is not this test's business."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))


async def fill(url: str) -> None:
    queue = await open_queue(url)
    store = rate_store_for(queue, SystemClock())
    now = time.time()
    fresh = unknown(now, RatePolicy())
    closed = fold(
        fresh, AnswerCounts(refused=1, hard=True, status=429, sent=now, closed_until=now + 3600), now, RatePolicy()
    )
    await store.write("a.org", "", fold(fresh, AnswerCounts(passed=7), now, RatePolicy()))
    await store.write("b.org via http://proxy:1", "", closed)
    store.close()
    await queue.close()


def test_a_queue_whose_hosts_were_never_asked_says_so(says: Callable[..., str]) -> None:
    assert says("hosts") == "No host was asked yet.\n"
    assert json.loads(says("hosts", "--json")) == []


def test_hosts_are_shown_with_their_rate_and_why_they_are_closed(says: Callable[..., str]) -> None:
    asyncio.run(fill("sqlite:///jobs.db"))
    shown = says("hosts", "--queue", "sqlite:///jobs.db")
    first, second = shown.splitlines()[1:]
    assert first.split()[:3] == ["a.org", "1/s", "7"]
    assert second.startswith("b.org via http://proxy:1")
    assert "429" in second
    assert "with Retry-After" in second


def test_the_same_for_programs(says: Callable[..., str]) -> None:
    asyncio.run(fill("sqlite:///jobs.db"))
    a, b = json.loads(says("hosts", "--json", "--queue", "sqlite:///jobs.db"))
    assert (a["host"], a["identity"], a["answers"], a["closed_until"], a["why"]) == ("a.org", None, 7, None, None)
    assert (b["host"], b["identity"], b["refusals"], b["last_status"]) == ("b.org", "http://proxy:1", 1, 429)
    assert b["closed_until"] > time.time() + 3000


def test_the_rate_that_is_shown_is_the_one_that_robots_txt_leaves(says: Callable[..., str]) -> None:
    async def crawled() -> None:
        queue = await open_queue("sqlite:///jobs.db")
        now = time.time()
        slow = fold(unknown(now, RatePolicy()), AnswerCounts(passed=1, crawl_delay=5.0), now, RatePolicy())
        with closing(rate_store_for(queue, SystemClock())) as store:
            await store.write("c.org", "", slow)
        await queue.close()

    asyncio.run(crawled())
    assert says("hosts", "--queue", "sqlite:///jobs.db").splitlines()[1].split()[:2] == ["c.org", "0.2/s"]


def test_on_a_narrow_terminal_the_reason_of_a_closure_is_still_whole(here: Path) -> None:
    asyncio.run(fill("sqlite:///jobs.db"))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "longshore", "hosts", "--queue", "sqlite:///jobs.db"]
    with subprocess.Popen(command, cwd=here, stdout=theirs, env={**os.environ, "COLUMNS": "80"}) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        assert process.wait() == 0
    os.close(ours)
    last = shown.decode().splitlines()[-1]
    assert last.startswith("b.org via http://proxy:1 is closed until ")
    assert last.endswith(": it answered 429 with Retry-After.")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so at the end
        return b""
