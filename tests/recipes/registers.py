"""The recipe `registers` in a folder of its own, with its replica as a process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import psutil
from tests.kit.task_server import clean_environment
from tests.recipes.yellowpages import MARK, RECIPES, Record, Site

from longshore import items, stats
from longshore.queue import Count

DISTRIBUTED = ("India", "Malaysia", "Netherlands", "Taiwan")
SINGLE = ("Russia", "Argentina", "CanadaQuebec")


class Replica:
    """The replica as a process, and its truth."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "registers.replica", "--port", "0", *options],
            cwd=RECIPES,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def read(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}/{path}") as answer:
            return bytes(answer.read()).decode()

    def truth(self, register: str) -> list[Record]:
        return [json.loads(line) for line in self.read(f"{register}/truth.jsonl").splitlines()]

    def counts(self, register: str) -> dict[str, int]:
        return dict(json.loads(self.read(f"{register}/counts.json")))

    def port_of(self, register: str) -> int:
        return int(json.loads(self.read("registers.json"))[register].rpartition(":")[2])

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class Folder(Site):
    """A folder in which the recipe is run."""

    def __init__(self, folder: Path, replica: Replica, queue: str = "", **variables: str) -> None:
        self.folder, self.register_replica = folder, replica
        self._begun: list[subprocess.Popen[bytes]] = []
        folder.mkdir(exist_ok=True)
        (folder / "registers").symlink_to(RECIPES / "registers")
        self.queue = queue or f"sqlite:///{folder}/registers.db"
        self.write_env(
            {
                "REGISTERS_REPLICA": replica.url,
                "LONGSHORE_QUEUE": self.queue,
                "LONGSHORE_VPN": "false",
                "LONGSHORE_LOG_FORMAT": "json",
                **variables,
            }
        )
        # Of the machine rather than of the recipe; a worker that is killed is missed for as long as its lease.
        self.environment = clean_environment() | {
            MARK: str(folder),
            "LONGSHORE_LEASE_SECONDS": "3",
            "LONGSHORE_POLL_INTERVAL": "0.5",
            "LONGSHORE_HOST_FIRST_RATE": "20",
        }
        self.environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{self.environment['PATH']}"

    def queued(self, register: str) -> dict[str, Any]:
        """Start a distributed scraper with all URLs of the replica, and return what is printed."""
        (self.folder / f"{register}.txt").write_text(self.register_replica.read(f"{register}/urls.txt"))
        return self.started(register, "--urls-file", f"{register}.txt")

    def started(self, register: str, *arguments: str) -> dict[str, Any]:
        done = self.run("registers.start", register, *arguments)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def begin(self, command: str | list[str], name: str) -> subprocess.Popen[bytes]:
        """Start a command, as typed or as a list. Its output is in a file of this name."""
        with (self.folder / name).open("ab") as out:
            begun = subprocess.Popen(
                command,
                shell=isinstance(command, str),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self._begun.append(begun)
        return begun

    def kill_all(self) -> None:
        super().kill_all()
        for each in self._begun:
            each.kill()
            each.wait()

    def said(self, name: str) -> str:
        return (self.folder / name).read_text()

    def counted(self, run: str) -> Count:
        return stats(run, queue=self.queue)

    def of_run(self, run: str) -> list[psutil.Process]:
        """The worker processes of a run, without the shells that started them."""
        return [each for each in self.processes() if run in _arguments(each) and _is_worker(each)]

    def found(self, run: str) -> list[Record]:
        """The records of a run, from the place that the `.env` of the folder names."""
        with contextlib.chdir(self.folder):
            return list(items(run, "price"))


def _is_worker(process: psutil.Process) -> bool:
    arguments = _arguments(process)
    return "registers.worker" in arguments or "work" in arguments


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []
