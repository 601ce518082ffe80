"""Servers from the package index, in a virtual environment of their own: they are large, and no test imports them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from tests.services.postgres import ServiceMissingError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-services"
LOCKS = Path(__file__).parent


def install(name: str) -> None:
    """Install what `NAME.lock` lists, unless it is there. Raise `ServiceMissingError` if it cannot be had."""
    if _is_there(name):
        return
    if not _python().exists():
        venv.create(FOLDER, with_pip=True)
    command = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    done = subprocess.run(
        [_python(), *command, "-r", LOCKS / f"{name}.lock"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ServiceMissingError(f"tests/services/{name}.lock cannot be installed:\n{done.stderr[-1500:]}")
    _mark(name).write_text(_content(name))


def python_with(name: str, fix: str) -> Path:
    """Return the Python that has these packages. Raise `ServiceMissingError` with the fix if there is none."""
    if not _is_there(name):
        raise ServiceMissingError(f"The packages of tests/services/{name}.lock are not installed. Fix: {fix}")
    return _python()


def _is_there(name: str) -> bool:
    mark = _mark(name)
    return mark.exists() and mark.read_text() == _content(name)


def _mark(name: str) -> Path:
    return FOLDER / f".ready-{name}"


def _content(name: str) -> str:
    return f"{hashlib.sha256((LOCKS / f'{name}.lock').read_bytes()).hexdigest()}\n"


def _python() -> Path:
    return FOLDER / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
