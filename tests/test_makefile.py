"""`make matrix` finds each Python, or says which is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKE = shutil.which("make") or "make"


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make test-on-3.12` on a machine that has only the programs in this folder. Tests are named, not run."""
    return subprocess.run(
        [MAKE, "--dry-run", "test-on-3.12", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        env={"PATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_every_python_that_is_claimed_is_tested() -> None:
    claimed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = re.search(r"^PYTHONS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    assert found[1].split() == [each.split()[-1] for each in claimed if re.search(r"Python :: \d\.\d+$", each)]


def test_a_missing_python_is_named_and_skipped_on_a_laptop(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    assert "Python 3.12 is not on this machine" in done.stderr
    assert "pytest" not in done.stdout


def test_a_missing_python_fails_in_ci(tmp_path: Path) -> None:
    done = run(tmp_path, CI="true")
    assert done.returncode != 0
    assert "Python 3.12 is not on this machine" in done.stderr


def test_a_python_on_the_path_gets_a_virtual_environment_of_its_own(tmp_path: Path) -> None:
    program(tmp_path / "python3.12", "exit 0")
    assert ".venv-3.12/bin/python -m pytest" in run(tmp_path, CI="true").stdout


@pytest.mark.parametrize("shim", [None, "exit 127"])
def test_a_python_that_only_pyenv_knows_is_found(tmp_path: Path, shim: str | None) -> None:
    if shim:
        program(tmp_path / "python3.12", shim)
    program(tmp_path / "pyenv", f'test "$*" = "prefix 3.12" && echo {tmp_path}/versions/3.12.9')
    program(tmp_path / "versions/3.12.9/bin/python", "exit 0")
    assert ".venv-3.12/bin/python -m pytest" in run(tmp_path, CI="true").stdout


def test_a_python_of_another_version_does_not_pass_for_it(tmp_path: Path) -> None:
    (tmp_path / "python3.12").symlink_to(sys.executable)
    program(tmp_path / "pyenv", "exit 1")
    tested = "-m pytest" in run(tmp_path).stdout
    assert tested is (sys.version_info[:2] == (3, 12))


def test_libraries_are_audited_on_request_only() -> None:
    """The database of weaknesses is on the internet, which a check must not depend on."""
    check = [MAKE, "--dry-run", "check"]
    plain, audited = (
        subprocess.run([*check, *extra], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for extra in ([], ["AUDIT=1"])
    )
    assert "audit" not in plain
    assert "pip-audit --disable-pip --require-hashes -r requirements-dev.lock" in audited
