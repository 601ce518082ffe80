"""The handlers of the workers: replace this file by your own."""

from longshore import AsyncKit, handler


@handler("page", timeout=60, retries=3)
async def page(url: str, kit: AsyncKit) -> dict[str, object]:
    """Fetch a page, and keep its title."""
    found = await kit.http.get(url)
    return {"title": found.text_of("title")}
