"""Old names of documented modules. They can still be imported, with a warning that names the new module.

An import that finds no module of that name comes here last, so the table costs nothing until an old name is used.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


RENAMED: Mapping[str, str] = {
    "longshore.fleet.us_states": "longshore.fleet.partitions.us_states",
    "longshore.runs.recording": "longshore.runs.estimate.recorded_runs",
    "longshore.scrape.bundles": "longshore.scrape.capture.failure_bundles",
    "longshore.scrape.cache": "longshore.scrape.http.page_cache",
    "longshore.scrape.exchange": "longshore.scrape.capture.exchange",
    "longshore.scrape.offline": "longshore.scrape.http.offline",
    "longshore.scrape.pace": "longshore.pacing.limiter",
    "longshore.scrape.pacing": "longshore.pacing.contract",
    "longshore.scrape.pages": "longshore.scrape.capture.page_store",
    "longshore.scrape.proxy_file": "longshore.scrape.proxies.proxy_file",
    "longshore.scrape.rate": "longshore.pacing.host_rate",
    "longshore.scrape.robots": "longshore.scrape.http.robots",
    "longshore.scrape.signature": "longshore.scrape.capture.failure_signature",
    "longshore.scrape.trail": "longshore.scrape.capture.trail",
}
"""Old module to new module."""
_RENAMED_CLASSES: Mapping[str, Mapping[str, str]] = {
    "longshore.scrape.bundles": {"Bundles": "FailureBundles"},
    "longshore.scrape.pace": {"LearnedPace": "LearnedLimiter"},
    "longshore.scrape.pacing": {"Pace": "Limiter", "NoPace": "Unlimited"},
    "longshore.scrape.rate": {"Policy": "RatePolicy"},
    "longshore.scrape.signature": {"Signature": "FailureSignature"},
}
"""Old class to new class, by old module."""


class _RenamedModules:
    """A finder and loader, as in `sys.meta_path`: a module with an old name gets the contents of the new one."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Return a spec if `name` is an old name."""
        del path, target
        if name not in RENAMED:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)  # type: ignore[arg-type]  # it has what a loader needs

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: Python makes an ordinary module."""
        del spec

    def exec_module(self, module: ModuleType) -> None:
        """Give the module every name of the new one, and the old names of classes that were renamed."""
        new, names = RENAMED[module.__name__], _RENAMED_CLASSES.get(module.__name__, {})
        warnings.warn(f"{module.__name__} is now {new}: import it from there.", DeprecationWarning, stacklevel=2)
        found = importlib.import_module(new)
        module.__dict__.update({name: value for name, value in vars(found).items() if not name.startswith("__")})
        module.__dict__.update({old: getattr(found, name) for old, name in names.items()})


def install_renamed_modules() -> None:
    """Let old names be imported. Calling it twice is harmless."""
    if not any(isinstance(finder, _RenamedModules) for finder in sys.meta_path):
        sys.meta_path.append(_RenamedModules())
