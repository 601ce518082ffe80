"""How this program is called here, so that every command it prints can be run as printed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def program() -> str:
    """`longshore` where that is on the path and is this one; else its path, or `python -m longshore`."""
    called = Path(sys.argv[0])
    if called.stem.lower() != "longshore":
        python = Path(sys.executable)
        found = shutil.which(python.name)
        return f"{python.name if found and Path(found) == python else _near(python)} -m longshore"
    found = shutil.which("longshore")
    return "longshore" if found and Path(found).resolve() == called.resolve() else _near(called)


def _near(path: Path) -> str:
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
