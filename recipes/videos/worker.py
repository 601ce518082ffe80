"""The worker: claims tasks from the server and asks the Data API.

python -m videos.worker
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from longshore import Task, Worker
from videos.api_client import YouTubeClient
from videos.config import VideoConfig
from videos.processors import PROCESSORS


class YouTubeWorker(Worker):
    """Handles the tasks `youtube.search`, `youtube.video` and `youtube.batch`."""

    kinds = tuple(PROCESSORS)
    timeout = 120
    retries = 3

    def __init__(
        self, api_url: str | None = None, worker_id: str | None = None, config: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(api_url, worker_id, config)
        self.videos = VideoConfig.from_environment()
        self.client = YouTubeClient(self.videos)

    def health_check(self) -> bool:
        if not self.videos.api_key:
            self.log.error("YOUTUBE_API_KEY is not set. Put it into .env, or into the environment.")
            return False
        return super().health_check()

    def process_task(self, task: Task) -> object:
        return PROCESSORS[task["type"]](self.client, task.get("params", {}))


if __name__ == "__main__":
    sys.exit(YouTubeWorker().run())
