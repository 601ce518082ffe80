"""The module paths that earlier versions documented, so that user code which imports them keeps working.

Each former module forwards to its new module at the first use of a name; importing this one imports none of them.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

FORMER_MODULES: dict[str, tuple[str, dict[str, str]]] = {
    "bundles": ("longshore.scrape.capture.failure_bundles", {"Bundles": "FailureBundles"}),
    "cache": ("longshore.scrape.http.page_cache", {}),
    "exchange": ("longshore.scrape.capture.exchange", {}),
    "offline": ("longshore.scrape.http.offline", {}),
    "pace": ("longshore.pacing.limiter", {"LearnedPace": "LearnedLimiter"}),
    "pages": ("longshore.scrape.capture.page_store", {}),
    "proxy_file": ("longshore.scrape.proxies.proxy_file", {}),
    "rate": ("longshore.pacing.host_rate", {"Policy": "RatePolicy"}),
    "signature": ("longshore.scrape.capture.failure_signature", {"Signature": "FailureSignature"}),
    "trail": ("longshore.scrape.capture.trail", {}),
}
"""The new module of each former one, and the new names of classes that were renamed."""


class _FormerModule(ModuleType):
    """A module that looks its names up in the module which replaced it."""

    def __init__(self, name: str, target: str, renamed: dict[str, str]) -> None:
        super().__init__(name, f"The former name of `{target}`.")
        self._target = target
        self._renamed = renamed

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self._target), self._renamed.get(name, name))


def register(package: str) -> None:
    """Make the former modules importable as submodules of `package`."""
    for name, (target, renamed) in FORMER_MODULES.items():
        module = _FormerModule(f"{package}.{name}", target, renamed)
        sys.modules[module.__name__] = module
        setattr(sys.modules[package], name, module)
