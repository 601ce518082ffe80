"""Every snippet of the README and the docs is run, in order, in an empty folder of its own for each page.

How a fenced block is treated is said by its first line:

    ```python file=pages.py     is written to that file
    ```python                   is run
    ```python by-hand           is compiled only: it needs a service
    ```text file=urls.txt       is written to that file
    ```sh                       is run line by line; every line must succeed
    ```sh exit=1                the same, but every line must end with this code
    ```sh beside                is started, and runs beside the rest of the page from its first line of output on
    ```sh by-hand               is not run: it needs a network, a service or a person. Its `make` targets must exist.

    ```toml                     is read as a longshore.toml, which must hold nothing unknown

Other languages (text, json …) show output and are not run.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from longshore.settings import resolve

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    options: str
    body: str
    line: int

    def option(self, name: str) -> str | None:
        found = re.search(rf"\b{name}=(\S+)", self.options)
        return found and found[1]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(found["language"], found["options"], found["body"], line)


def environment_of(folder: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["XDG_CACHE_HOME"] = str(folder / ".cache")
    environment["XDG_CONFIG_HOME"] = str(folder / ".config")
    return environment


@contextmanager
def running_beside(command: str, folder: Path) -> Iterator[None]:
    """Run a command that serves something, from its first line of output until the block ends."""
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", f"exec {command}"],
        cwd=folder,
        env=environment_of(folder),
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), f"{command} ended without a word"
            yield
        finally:
            process.kill()


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment_of(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def commands(body: str) -> Iterator[str]:
    for line in body.replace("\\\n", " ").splitlines():
        command = line.removeprefix("$ ").strip()
        if command and not command.startswith("#"):
            yield command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_runs(page: Path, tmp_path: Path) -> None:
    with ExitStack() as beside:
        run_page(page, tmp_path, beside)


def run_page(page: Path, tmp_path: Path, beside: ExitStack) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if name := block.option("file"):
            target = (tmp_path / name).resolve()
            assert target.is_relative_to(tmp_path), f"{where}: {name} leaves the folder"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.body)
        elif block.language == "python" and "by-hand" in block.options:
            compile(block.body, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif block.language == "python":
            done = run([sys.executable, "-W", "error", "-c", block.body], tmp_path)
            assert done.returncode == 0, f"{where}:\n{done.stdout}\n{done.stderr}"
        elif block.language == "toml":
            place = tmp_path / f"settings-{block.line}"
            place.mkdir()
            (place / "longshore.toml").write_text(block.body)
            resolve({}, environ={}, folder=place)
        elif block.language == "sh":
            for command in commands(block.body):
                if "by-hand" in block.options:
                    if made := re.match(r"make ([a-z-]+)", command):
                        assert made[1] in targets, f"{where}: there is no `make {made[1]}`"
                    continue
                if "beside" in block.options:
                    beside.enter_context(running_beside(command, tmp_path))
                    continue
                done = run(["bash", "-euo", "pipefail", "-c", command], tmp_path)
                expected = int(block.option("exit") or 0)
                code = done.returncode if done.returncode >= 0 else 128 - done.returncode
                assert code == expected, f"{where}: {command}\n{done.stdout}\n{done.stderr}"


def test_the_docs_hold_something_to_run() -> None:
    assert [block for page in PAGES for block in blocks(page) if block.language in {"python", "sh"}]
