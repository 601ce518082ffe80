"""The recipe `yellowpages` in a folder of its own, with its replica as a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
from tests.kit.task_server import clean_environment

RECIPES = Path(__file__).parents[2] / "recipes"
MARK = "LONGSHORE_TEST_MARK"
Record = dict[str, Any]


class Replica:
    """The replica as a process, and its truth."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.proxy_file = folder / "proxies.txt"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "yellowpages.replica", "--port", "0", "--proxy-file", self.proxy_file, *options],
            cwd=RECIPES,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def counts(self) -> dict[str, int]:
        return dict(json.loads(self._read("counts.json")))

    def rejected(self, **choice: Any) -> dict[str, int]:
        """How many the filter rejects for which reason."""
        return dict(json.loads(self._read("rejected.json", **choice)))

    def truth(self, **choice: Any) -> list[Record]:
        return [json.loads(line) for line in self._read("truth.jsonl", **choice).splitlines()]

    def _read(self, name: str, **choice: Any) -> bytes:
        query = "&".join(f"{name}={value}" for name, value in choice.items())
        with urllib.request.urlopen(f"{self.url}/{name}?{query}") as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class Site:
    """A folder in which the recipe is run."""

    def __init__(self, folder: Path, replica: Replica, queue: str = "sqlite:///listings.db", **variables: str) -> None:
        self.folder, self.replica, self.queue = folder, replica, queue
        folder.mkdir(exist_ok=True)
        (folder / "yellowpages").symlink_to(RECIPES / "yellowpages")
        self.variables = {
            "YELLOWPAGES_URL": replica.url,
            "LONGSHORE_QUEUE": queue,
            "LONGSHORE_VPN": "false",
            "LONGSHORE_CONCURRENCY": "1",
            "PROXY_FILE": str(replica.proxy_file),
            **variables,
        }
        self.write_env(self.variables)
        # Of the machine rather than of the recipe; a worker that is killed is missed for as long as its lease.
        self.environment = clean_environment() | {
            MARK: str(folder),
            "LONGSHORE_LEASE_SECONDS": "3",
            "LONGSHORE_POLL_INTERVAL": "0.5",
            "LONGSHORE_STAGGER": "0",
            "LONGSHORE_HOST_FIRST_RATE": "20",
        }

    def write_env(self, variables: dict[str, str]) -> None:
        (self.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))

    def command(self, module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", module, *arguments]

    def run(self, module: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.command(module, *arguments),
            cwd=self.folder,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def make_targets(self, states: str, cities: int, categories: int) -> str:
        counts = ("--cities", str(cities), "--categories", str(categories))
        done = self.run("yellowpages.targets", "--states", states, *counts)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start the workers. Their output is in `fleet.out`."""
        with (self.folder / "fleet.out").open("ab") as out:
            return subprocess.Popen(
                self.command("yellowpages.run", "--yes", *arguments),
                cwd=self.folder,
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def finish(self, fleet: subprocess.Popen[bytes], code: int = 0) -> str:
        """Wait until the workers have ended, and return their output."""
        try:
            ended = fleet.wait(timeout=480)
        finally:
            fleet.kill()
        assert ended == code, self.output()
        assert not self.processes()
        return self.output()

    def output(self) -> str:
        return (self.folder / "fleet.out").read_text()

    def log(self, name: str) -> str:
        path = self.folder / "logs" / name
        return path.read_text() if path.exists() else ""

    def scraped(self) -> int:
        """How many targets the logs of the workers say were scraped."""
        return sum(path.read_text().count("Scraped target") for path in self.folder.glob("logs/worker_*.log"))

    def records(self) -> list[Record]:
        done = self.run("longshore", "export", "listings", "--records", "listing", "--bare")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def counts(self) -> dict[str, int]:
        """The counts of the run, of all states together."""
        done = self.run("longshore", "status", "listings", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return {name: found[name] for name in ("claimed", "completed", "failed", "pending")}

    def rejected(self) -> dict[str, int]:
        done = self.run("longshore", "records", "listings", "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout)["rejected"]["listing"])

    def processes(self) -> list[psutil.Process]:
        """Every process that was started here, whatever its parent is now."""
        return [each for each in psutil.process_iter() if _environment(each).get(MARK) == str(self.folder)]

    def workers(self) -> list[psutil.Process]:
        return [each for each in self.processes() if re.search(r"longshore work\b", " ".join(_command(each)))]

    def browsers(self) -> set[int]:
        """The process ids of the browsers of the workers, without those of their tabs."""
        found = set[int]()
        for worker in self.workers():
            try:
                below = worker.children(recursive=True)
            except psutil.NoSuchProcess:
                continue
            found |= {each.pid for each in below if _is_browser(_command(each))}
        return found

    def kill_all(self) -> None:
        for each in self.processes():
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue


def _is_browser(command: list[str]) -> bool:
    line = " ".join(command)
    return "--remote-debugging-pipe" in line and "--type=" not in line and "bash" not in command[0]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def _environment(process: psutil.Process) -> dict[str, str]:
    if process.pid == os.getpid():
        return {}
    try:
        return process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return {}


def in_order(records: Iterable[Record]) -> list[str]:
    """Records as lines that can be compared: all fields, each as often as it is there."""
    return sorted(json.dumps(each, sort_keys=True, ensure_ascii=False) for each in records)
