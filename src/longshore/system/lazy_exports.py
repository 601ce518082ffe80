"""Import the public names of a package on first use, so that a user of one name does not pay for the others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package`; `places` maps each name to its module: `{"work": "worker"}`.

    A name is looked up once and then stored in the package, as if it had been imported at the top.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
