"""ARCHITECTURE.md names only files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "longshore"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
FILES = sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE)))
FOLDERS = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*/)`", PAGE)))
NAMED = sorted({(file, name) for file, name in re.findall(r"`([\w/]+\.py)` `(\w+)`", PAGE)})
PACKAGES = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_named_exists(file: str) -> None:
    assert (SOURCE / file).exists() or len(list(SOURCE.rglob(file))) == 1


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_that_is_named_exists(folder: str) -> None:
    places = [ROOT, SOURCE, *(path for path in SOURCE.iterdir() if path.is_dir())]
    assert any((place / folder).is_dir() for place in places)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_function_that_is_named_exists(file: str, name: str) -> None:
    defined = {
        node.name
        for node in ast.walk(ast.parse((SOURCE / file).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert name in defined


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_paragraph(package: str) -> None:
    assert f"**{package}**" in PAGE or package == "demo"


def test_the_walk_has_links_to_functions() -> None:
    assert len(NAMED) >= 20
