"""`youtube.video`: the details of one video."""

from __future__ import annotations

from collections.abc import Mapping

from longshore import ProcessingError
from videos.api_client import YouTubeClient
from videos.validators import VideoParams, checked


def video(client: YouTubeClient, params: Mapping[str, object]) -> object:
    """Return the details; a video that does not exist is a failure that no attempt helps."""
    asked = checked(VideoParams, params)
    found = client.videos([asked.video_id]).get(asked.video_id)
    if found is None:
        raise ProcessingError(f"There is no video {asked.video_id}", retryable=False)
    return {"success": True, "data": found}
