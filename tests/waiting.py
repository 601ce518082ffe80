"""Waiting for what other processes do: by looking, never by guessing how long it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, looks: int = 2400) -> None:
    """Look again and again, 20 times a second; give up loudly after two minutes."""
    pause = threading.Event()
    for _ in range(looks):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("it never came to that")
