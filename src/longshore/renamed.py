"""Old names of documented modules. They can still be imported, with a warning that names the new module.

An import that finds no module of that name comes here last, so the table costs nothing until an old name is used.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _NewName(NamedTuple):
    module: str
    names: Mapping[str, str] = {}
    """Old name to new name, for names that changed as well."""


RENAMED: Mapping[str, _NewName] = {
    "longshore.fleet.us_states": _NewName("longshore.fleet.partitions.us_states"),
    "longshore.runs.recording": _NewName("longshore.runs.estimate.recorded_runs"),
    "longshore.scrape.bundles": _NewName("longshore.scrape.capture.failure_bundles", {"Bundles": "FailureBundles"}),
    "longshore.scrape.cache": _NewName("longshore.scrape.http.page_cache"),
    "longshore.scrape.exchange": _NewName("longshore.scrape.capture.exchange"),
    "longshore.scrape.offline": _NewName("longshore.scrape.http.offline"),
    "longshore.scrape.pace": _NewName("longshore.pacing.limiter", {"LearnedPace": "LearnedLimiter"}),
    "longshore.scrape.pacing": _NewName("longshore.pacing.contract", {"Pace": "Limiter", "NoPace": "Unlimited"}),
    "longshore.scrape.pages": _NewName("longshore.scrape.capture.page_store"),
    "longshore.scrape.proxy_file": _NewName("longshore.scrape.proxies.proxy_file"),
    "longshore.scrape.rate": _NewName("longshore.pacing.host_rate", {"Policy": "RatePolicy"}),
    "longshore.scrape.robots": _NewName("longshore.scrape.http.robots"),
    "longshore.scrape.signature": _NewName(
        "longshore.scrape.capture.failure_signature", {"Signature": "FailureSignature"}
    ),
    "longshore.scrape.trail": _NewName("longshore.scrape.capture.trail"),
}


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
        new = RENAMED[module.__name__]
        warnings.warn(f"{module.__name__} is now {new.module}: import it from there.", DeprecationWarning, stacklevel=2)
        found = importlib.import_module(new.module)
        module.__dict__.update({name: value for name, value in vars(found).items() if not name.startswith("__")})
        module.__dict__.update({old: getattr(found, name) for old, name in new.names.items()})


def install_renamed_modules() -> None:
    """Let old names be imported. Calling it twice is harmless."""
    if not any(isinstance(finder, _RenamedModules) for finder in sys.meta_path):
        sys.meta_path.append(_RenamedModules())
