"""The partitions a handler file names: `PARTITIONS = ["CA", "TX"]` at its top level."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from longshore.errors import HandlerFileError


def partitions_in(handler_file: Path) -> tuple[str, ...]:
    """The names in `PARTITIONS` of the file, which must have been loaded; empty where it has none.

    Anything that yields names will do. `HandlerFileError` where it does not.
    """
    origin = str(handler_file.resolve())
    module = next((each for each in list(sys.modules.values()) if getattr(each, "__file__", None) == origin), None)
    named = getattr(module, "PARTITIONS", ())
    if isinstance(named, str) or not isinstance(named, Iterable):
        raise HandlerFileError(f'PARTITIONS in {handler_file} is no list of names. Write it as ["CA", "TX"].')
    names = tuple(named)
    if wrong := [name for name in names if not isinstance(name, str) or not name]:
        raise HandlerFileError(f"PARTITIONS in {handler_file} holds {wrong[0]!r}, which is no name of a partition.")
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise HandlerFileError(f"PARTITIONS in {handler_file} lists {', '.join(twice)} more than once. Once is enough.")
    return names
