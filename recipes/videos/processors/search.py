"""`youtube.search`: the videos that match a query."""

from __future__ import annotations

from collections.abc import Mapping

from videos.api_client import YouTubeClient
from videos.validators import SearchParams, checked


def search(client: YouTubeClient, params: Mapping[str, object]) -> object:
    """Return the envelope of the videos that were found."""
    asked = checked(SearchParams, params)
    found = client.search(asked.search_query, asked.max_results)
    return {"success": True, "data": found, "message": f"{len(found)} videos for '{asked.search_query}'"}
