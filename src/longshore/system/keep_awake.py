"""Keep the machine from going to sleep while a worker runs, if the system allows it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def awake(wanted: bool, cannot: Callable[[], None]) -> Iterator[None]:
    """Keep the machine awake inside the block if `wanted`; call `cannot` once if that is impossible."""
    if not wanted:
        yield
        return
    # wakepy logs every method that it knows and tries; only the outcome matters here.
    logging.getLogger("wakepy").setLevel(logging.CRITICAL)
    from wakepy import keep

    with keep.running(on_fail=lambda _result: cannot()):
        yield
