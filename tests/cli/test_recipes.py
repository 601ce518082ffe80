"""`longshore recipes`: from a clone and from a wheel, a recipe is listed and copied."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

ROOT = Path(__file__).parents[2]
NAMES = sorted(each.parent.name for each in (ROOT / "recipes").glob("*/README.md"))


def test_all_recipes_are_listed_with_a_sentence(shell: Shell) -> None:
    done = shell("recipes")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == NAMES
    assert all(len(line.split()) > 4 for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_copied_without_what_is_not_part_of_it(shell: Shell, name: str) -> None:
    done = shell("recipes", "copy", name, "mine")
    assert done.returncode == 0, done.stderr
    copied = shell.folder / "mine" / name
    assert (copied / "README.md").is_file()
    assert not list(copied.rglob("__pycache__"))
    again = shell("recipes", "copy", name, "mine")
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_a_link_is_not_copied_through(shell: Shell) -> None:
    (shell.folder / "mine").mkdir()
    (shell.folder / "mine" / NAMES[0]).symlink_to(shell.folder / "elsewhere")
    done = shell("recipes", "copy", NAMES[0], "mine")
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert not (shell.folder / "elsewhere").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("copy",), "longshore recipes copy NAME DIR"),
        (("copy", "videos"), "longshore recipes copy NAME DIR"),
        (("copy", "nosuch", "x"), "There is no recipe 'nosuch'. There are: "),
        (("show",), "takes copy, not 'show'"),
    ],
)
def test_a_wrong_command_is_refused(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    done = shell("recipes", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_an_installed_longshore_has_the_recipes(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    there = tmp_path / "installed" / "longshore" / "recipes"
    assert sorted(each.name for each in there.iterdir()) == NAMES
    listing = "import sys; from longshore.cli import main; sys.exit(main(['recipes']))"
    done = subprocess.run(
        [sys.executable, "-c", listing], cwd=tmp_path / "installed", capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == NAMES


def test_no_recipe_is_known_by_name_in_the_sources() -> None:
    for source in (ROOT / "src").rglob("*.py"):
        text = source.read_text()
        assert not any(f"recipes/{name}" in text or f"recipes.{name}" in text for name in NAMES), source
