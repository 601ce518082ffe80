"""The replica of the recipe `competitions`, its workers and its host, as processes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from tests.kit.task_server import clean_environment

RECIPES = Path(__file__).parents[2] / "recipes"
QUICK = {
    "PYTHONPATH": str(RECIPES),
    "COMPETITIONS_PATIENCE": "0.2",
    "LONGSHORE_HOST_FIRST_RATE": "15",
    "LONGSHORE_POLL_INTERVAL": "0.5",
    "LONGSHORE_LOG_FORMAT": "text",
}


class Replica:
    """The site, as a process."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "competitions.replica", "--port", "0", *options]
        self._process = subprocess.Popen(command, cwd=RECIPES, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def read(self, name: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/{name}") as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class Machine:
    """A folder in which commands are started, with a mirror of the repository of its own, as on another machine."""

    def __init__(self, folder: Path, replica: Replica, **variables: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        mine = {"XDG_CACHE_HOME": str(folder / "cache"), "COMPETITIONS_SOURCE": replica.url}
        self.environment: Mapping[str, str] = clean_environment() | QUICK | mine | variables
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, err: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start `python -m` with these arguments."""
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str, code: int = 0, timeout: float = 300) -> tuple[str, str]:
        """Return what the command wrote to standard output and error."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=timeout)
        assert process.returncode == code, out + err
        return out, err

    def worker(self, *arguments: str) -> subprocess.Popen[str]:
        return self.start("competitions.worker", *arguments)

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


def wait_for_line(process: subprocess.Popen[str], phrase: str) -> str:
    """Return the next line of the log with this phrase."""
    assert process.stderr is not None
    for line in process.stderr:
        if phrase in line:
            return line
    raise AssertionError(f"the worker ended before it logged {phrase!r}")


def results_in(file: Path) -> dict[str, Any]:
    """Return the collected results by competition; each is there once."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    found = {row["payload"]["competition_id"]: row["result"] for row in rows}
    assert len(found) == len(rows)
    return found


def is_the_truth(found: Mapping[str, Any], truth: Mapping[str, Any]) -> None:
    """Check every record and every field: all are there, none twice, none invented."""
    assert found.keys() == truth.keys()
    for name, result in found.items():
        wanted = truth[name]
        assert result["club_data"] == wanted["club_data"], name
        assert result["seasons_processed"] == wanted["seasons_processed"]
        assert result["total_clubs_scraped"] == len(wanted["club_data"])
        assert result["execution_time_seconds"] > 0
        assert result.keys() == {
            "seasons_processed", "club_data", "total_clubs_scraped", "execution_time_seconds",
        }  # fmt: skip


def in_order(text: str, *phrases: str) -> None:
    """Check that the phrases are in the text in this order."""
    at = 0
    for phrase in phrases:
        found = text.find(phrase, at)
        assert found >= 0, f"{phrase!r} is not in the rest of:\n{text}"
        at = found + len(phrase)


MakeMachine = Callable[..., Machine]
