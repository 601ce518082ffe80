"""Keeps the machine from going to sleep while a worker runs, where that can be had."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def awake(wanted: bool, cannot: Callable[[], None]) -> Iterator[None]:
    """Inside the block the machine stays awake; where nothing can see to that, `cannot` is called once."""
    if not wanted:
        yield
        return
    from wakepy import keep

    # It tells its whole search as it goes; the outcome is enough.
    logging.getLogger("wakepy").setLevel(logging.CRITICAL)

    with keep.running(on_fail=lambda _result: cannot()):
        yield
