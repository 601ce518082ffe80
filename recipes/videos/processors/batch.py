"""`youtube.batch`: the details of many videos; those that do not exist are errors beside the results."""

from __future__ import annotations

from collections.abc import Mapping

from longshore import Partial, ProcessingError
from videos.api_client import YouTubeClient
from videos.validators import BatchParams, checked


def batch(client: YouTubeClient, params: Mapping[str, object]) -> object:
    """Return results and errors side by side."""
    ids = list(dict.fromkeys(checked(BatchParams, params).video_ids))
    found = client.videos(ids)
    missing = [ProcessingError(f"There is no video {each}", retryable=False) for each in ids if each not in found]
    return Partial([found[each] for each in ids if each in found], missing)
