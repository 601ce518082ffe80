"""The partitions that a handler file declares: `PARTITIONS = ["CA", "TX"]` at its top level."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from longshore.errors import HandlerFileError


def partitions_in(handler_file: Path) -> tuple[str, ...]:
    """Return the names in `PARTITIONS` of a handler file that was loaded; empty if it has none.

    `PARTITIONS` may be any iterable of names. Raises `HandlerFileError` if it is not.
    """
    origin = str(handler_file.resolve())
    module = next((each for each in list(sys.modules.values()) if getattr(each, "__file__", None) == origin), None)
    declared = getattr(module, "PARTITIONS", ())
    if isinstance(declared, str) or not isinstance(declared, Iterable):
        raise HandlerFileError(f'PARTITIONS in {handler_file} is not a list of names. Write it as ["CA", "TX"].')
    names = tuple(declared)
    if wrong := [name for name in names if not isinstance(name, str) or not name]:
        raise HandlerFileError(f"PARTITIONS in {handler_file} holds {wrong[0]!r}, which is not a partition's name.")
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise HandlerFileError(f"PARTITIONS in {handler_file} lists {', '.join(twice)} more than once. List it once.")
    return names
