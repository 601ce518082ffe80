"""What `make dist` builds works on its own: in an empty virtual environment, without the clone."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.markers import Marker
from tests.cli.publishing import install_wheel

ROOT = Path(__file__).parents[2]
MAKE = shutil.which("make") or "make"
PACKAGED = {".py", ".sql", ".html", ".css", ".tcss", ".js", ".svg", ".md", ".csv", ".toml", ".txt", ".in", ".typed"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def test_make_dist_builds_both_with_the_version_of_the_project(built: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {path.name for path in built.iterdir()} == {
        f"longshore-{version}-py3-none-any.whl",
        f"longshore-{version}.tar.gz",
    }
    planned = subprocess.run([MAKE, "--dry-run", "dist"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "-m hatchling build -d dist" in planned.stdout


def test_the_wheel_has_the_package_and_no_stray_files(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    inside = [name for name in names if name.parts[0] == "longshore"]
    assert {name.parts[0] for name in names if name not in inside} == {
        f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    }
    strange = [
        str(name)
        for name in inside
        if name.suffix not in PACKAGED
        and name.name not in {".env.example", "Dockerfile"}
        and ".LICENSE" not in name.name
    ]
    assert strange == []
    assert wheel.stat().st_size < 8 << 20


def test_the_source_archive_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")],
        cwd=source,
        check=True,
    )
    (first,), (second,) = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    assert sorted(zipfile.ZipFile(first).namelist()) == sorted(zipfile.ZipFile(second).namelist())


def add_requirements(site: Path) -> None:
    """Add the locked requirements of the package, and nothing else of the environment of the tests."""
    for name in re.findall(
        r"^([\w.-]+)==[^;\n]*?(?: ; (.*?))? \\$", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    ):
        if name[1] and not Marker(name[1]).evaluate():
            continue
        installed = importlib.metadata.distribution(name[0])
        for top in {file.parts[0] for file in installed.files or [] if file.parts[0] not in {"..", "__pycache__"}}:
            (site / top).symlink_to(str(installed.locate_file(top)))


def test_an_environment_with_nothing_but_the_wheel_runs_the_demo_and_makes_a_project(
    built: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    add_requirements(install_wheel(tmp_path / "environment", wheel))
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}

    def longshore(*words: str) -> str:
        command = [str(tmp_path / "environment" / "bin" / "longshore"), *words]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "148 pages scraped, 2 failed as planned" in longshore("demo")
    longshore("init", "shop")
    assert (folder / "shop" / "handlers.py").exists()
