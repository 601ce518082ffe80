"""A handler that needs no network: it waits, as for an answer, and keeps a record."""

import asyncio

from longshore import AsyncKit, handler


@handler("page", timeout=60, retries=20)
async def page(url: str, kit: AsyncKit) -> dict[str, str]:
    """Wait, and tell the URL."""
    await asyncio.sleep(0.3)
    kit.emit({"url": url})
    return {"url": url}
