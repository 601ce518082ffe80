"""The settings of the worker, from the environment and `.env`."""

from __future__ import annotations

import os
from dataclasses import dataclass

LIVE = "https://www.googleapis.com/youtube/v3"


@dataclass(frozen=True)
class VideoConfig:
    """Which Data API is asked, and with which key."""

    api_key: str
    base_url: str = LIVE
    cache_seconds: float = 3600.0
    """How long an answer is used again."""

    @classmethod
    def from_environment(cls) -> VideoConfig:
        """Read `YOUTUBE_API_KEY`, `YOUTUBE_API_URL` and `CACHE_SECONDS`. Without a key, it is empty."""
        return cls(
            api_key=os.environ.get("YOUTUBE_API_KEY", ""),
            base_url=os.environ.get("YOUTUBE_API_URL", LIVE).rstrip("/"),
            cache_seconds=float(os.environ.get("CACHE_SECONDS", "3600")),
        )
