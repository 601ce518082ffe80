"""Names that are imported on first use: each is there, is its module's, and costs nobody who does not ask for it."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import longshore
import longshore.observe
import longshore.worker

PACKAGES = ["longshore", "longshore.observe", "longshore.worker"]


def places(package: str) -> dict[str, str]:
    """Which module each name of a package is from, as a type checker reads it."""
    tree = ast.parse(Path(importlib.import_module(package).__file__ or "").read_text())
    found = {
        alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    own = {name: module for name, module in found.items() if module.startswith("longshore")}
    return {name: module for name, module in own.items() if name not in {"install_renamed_modules", "lazy_exports"}}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_that_of_the_module_a_type_checker_sees(package: str) -> None:
    there = importlib.import_module(package)
    known = places(package)
    assert set(known) == set(there.__all__)
    for name, module in known.items():
        assert getattr(there, name) is getattr(importlib.import_module(module), name), name


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_can_be_the_first_to_be_imported(package: str) -> None:
    """In a process of its own: whoever comes first may not find what others would have imported for it."""
    names = importlib.import_module(package).__all__
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    for module in [each for each in sys.modules if each.startswith('longshore')]:\n"
        "        del sys.modules[module]\n"
        f"    exec(f'from {package} import {{name}}')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error_that_says_so(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        importlib.import_module(package).nothing  # noqa: B018
    assert not hasattr(importlib.import_module(package), "nothing")


def test_a_name_is_looked_up_once() -> None:
    assert longshore.worker.work is longshore.worker.work
    assert "work" in vars(longshore.worker)
