"""A handler that needs no network: it waits, as for an answer, and keeps a record."""

import asyncio
from pathlib import Path

from longshore import AsyncKit, handler

GATES = {1500: Path("/handlers/go-1"), 3000: Path("/handlers/go-2")}
"""From which job on the work waits for a file, so that a slow machine does not miss the middle of the run."""


@handler("page", timeout=3600, retries=20)
async def page(url: str, kit: AsyncKit) -> dict[str, str]:
    """Wait, and tell the URL."""
    number = int(url.rpartition("/")[2])
    for first, gate in GATES.items():
        while number >= first and not gate.exists():  # noqa: ASYNC110  (a file has no event)
            await asyncio.sleep(0.5)
    await asyncio.sleep(0.3)
    kit.emit({"url": url})
    return {"url": url}
