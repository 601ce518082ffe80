"""The real command, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.services.warm import Warm

from longshore.settings import TABLE

SMALLEST = """from longshore import handler

@handler("page", timeout=30, retries=3)
async def page(job, kit):
    return {"length": len(job.payload["url"])}
"""


class Shell:
    """A folder with a clean environment, in which `longshore` is run."""

    def __init__(self, folder: Path, warm: Warm | None = None) -> None:
        self.folder = folder
        self._warm = warm
        ours = {name for setting in TABLE.values() for name in setting.variables}
        self.environment = {name: value for name, value in os.environ.items() if name not in ours}
        self.environment |= {"COLUMNS": "100", "NO_COLOR": ""}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def __call__(self, *arguments: str, stdin: str | None = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        environment = self.environment | variables
        if self._warm is not None and stdin is not None and self._warm.can(environment):
            return self._warm.run(arguments, cwd=self.folder, env=environment, stdin=stdin, timeout=90)
        return subprocess.run(
            [sys.executable, "-m", "longshore", *arguments],
            cwd=self.folder,
            env=environment,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=90,
            check=False,
        )

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Run it beside the test."""
        return subprocess.Popen(
            [sys.executable, "-m", "longshore", *arguments],
            cwd=self.folder,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def json(self, *arguments: str) -> Any:
        """What it prints, read as JSON."""
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def urls(self, count: int, name: str = "urls.txt") -> str:
        """A file with so many URLs."""
        self.write(name, "".join(f"https://a.org/{number}\n" for number in range(count)))
        return name


@pytest.fixture
def shell(tmp_path: Path, warm: Warm | None) -> Shell:
    shell = Shell(tmp_path, warm)
    shell.write("pages.py", SMALLEST)
    return shell


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder and no settings, for commands run inside the test's own process."""
    for setting in TABLE.values():
        for name in setting.variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must be refused with this exit code: one message, nothing on standard output, no traceback."""
    from longshore.cli import main

    def run(*arguments: str, code: int = 2) -> str:
        assert main(arguments) == code
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("longshore: ")
        assert "Traceback" not in err
        return err

    return run


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must succeed, and give what it printed."""
    from longshore.cli import main

    def run(*arguments: str) -> str:
        capsys.readouterr()
        code = main(arguments)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run
