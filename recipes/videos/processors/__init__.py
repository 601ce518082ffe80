"""The work for each type of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from videos.api_client import YouTubeClient
from videos.processors.batch import batch
from videos.processors.search import search
from videos.processors.video import video

PROCESSORS: Mapping[str, Callable[[YouTubeClient, Mapping[str, object]], object]] = {
    "youtube": search,
    "youtube.search": search,
    "youtube.video": video,
    "youtube.batch": batch,
}
