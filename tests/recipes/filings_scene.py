"""The recipe `filings` in a folder of its own, with its replica as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import psutil
from tests.kit.task_server import clean_environment
from tests.recipes.yellowpages import MARK, RECIPES

from filings.check import KINDS

OWN = ("EDGAR_URL", "FILINGS_", "OLLAMA_", "NEO4J_", "USE_AI_EXTRACTION")


class FilingsReplica:
    """The replica as a process, and its truth."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "filings.replica", "--port", "0", *options],
            cwd=RECIPES,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def truth(self, year: int | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        query = f"year={year or ''}&limit={'' if limit is None else limit}"
        return [json.loads(line) for line in self._read(f"truth.jsonl?{query}").splitlines()]

    def counts(self) -> dict[str, int]:
        return dict(json.loads(self._read("counts.json")))

    def _read(self, name: str) -> bytes:
        with urllib.request.urlopen(f"{self.url.removesuffix('/Archives')}/{name}") as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class FilingsFolder:
    """A folder in which the recipe is run, as on a machine of its own."""

    def __init__(self, folder: Path, replica: FilingsReplica, **variables: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "filings").symlink_to(RECIPES / "filings")
        self.variables = {
            "EDGAR_URL": replica.url,
            "LONGSHORE_CONTACT": "tests@example.org",
            "QUEUE_DIR": "data/queue",
            "USE_AI_EXTRACTION": "false",
            "FILINGS_GRAPH": "none",
            "LONGSHORE_VPN": "false",
            **variables,
        }
        self.write_env(**self.variables)
        clean = {name: value for name, value in clean_environment().items() if not name.startswith(OWN)}
        # Of the machine rather than of the recipe; a worker that is killed is missed for as long as its lease.
        self.environment = clean | {
            MARK: str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "LONGSHORE_LEASE_SECONDS": "3",
            "LONGSHORE_POLL_INTERVAL": "0.5",
            "LONGSHORE_STAGGER": "0",
            "LONGSHORE_HOST_FIRST_RATE": "50",
        }

    def write_env(self, **variables: str) -> None:
        (self.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))

    def run(self, module: str, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command. Its output is in `out.txt`."""
        with (self.folder / "out.txt").open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def output(self) -> str:
        return (self.folder / "out.txt").read_text()

    def finish(self, process: subprocess.Popen[bytes], code: int = 0) -> str:
        """Wait until the command has ended, and return its output."""
        try:
            ended = process.wait(timeout=480)
        finally:
            process.kill()
        assert ended == code, self.output()
        return self.output()

    def records(self, run: str, kind: str) -> list[dict[str, Any]]:
        done = self.run("longshore", "export", run, "--records", kind, "--bare")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def all_records(self, run: str) -> list[dict[str, Any]]:
        """The records without what the truth cannot know: their places, and who found them."""
        return [
            {"record": kind, **{name: value for name, value in record.items() if name not in ("grounds", "found_by")}}
            for kind in KINDS
            for record in self.records(run, kind)
        ]

    def counts(self, run: str) -> dict[str, int]:
        found = json.loads(self.run("longshore", "status", run, "--json").stdout)
        return {name: found[name] for name in ("claimed", "completed", "failed", "pending")}

    def read(self) -> int:
        """How many filings the logs of the workers say were read."""
        logs = [*self.folder.glob("logs/worker_*.log"), *self.folder.glob("out.txt")]
        return sum(path.read_text().count("Read filing") for path in logs)

    def processes(self) -> list[psutil.Process]:
        """Every process that was started here, whatever its parent is now."""
        return [each for each in psutil.process_iter() if _environment(each).get(MARK) == str(self.folder)]

    def workers(self) -> list[psutil.Process]:
        return [each for each in self.processes() if "longshore work" in " ".join(_command(each))]

    def kill_all(self) -> None:
        for each in self.processes():
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue


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
