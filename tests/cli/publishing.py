"""A host who publishes handlers, and volunteers who have only the URL of the queue."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.conftest import Shell
from tests.services.warm import Warm

COUNTING = """
from pathlib import Path
from longshore import handler

# A mark that the code of this version was imported, in the folder of whoever did it.
with Path("imported.txt").open("a") as mark:
    mark.write("{version}\\n")

@handler("page", timeout=60, retries=3)
async def page(job, kit):
    return "{version}"
"""


class Person:
    """Someone with a folder, a home and no handlers of the queue."""

    def __init__(self, folder: Path, queue: str, warm: Warm | None = None) -> None:
        folder.mkdir(parents=True)
        self._submitted = 0
        self.shell = Shell(folder, warm)
        self.shell.environment |= {
            "LONGSHORE_QUEUE": queue,
            "XDG_CONFIG_HOME": str(folder / "home" / "config"),
            "XDG_CACHE_HOME": str(folder / "home" / "cache"),
        }

    def publish(self, text: str, *options: str, name: str = "pages.py") -> str:
        """Publish a handler file, and return its fingerprint."""
        self.shell.write(name, text)
        published: dict[str, str] = self.shell.json("publish", name, "--json", *options)
        return published["fingerprint"]

    def version(self, version: str, *options: str) -> str:
        """Publish handlers whose results are `version`, and return the fingerprint."""
        return self.publish(COUNTING.replace("{version}", version), *options)

    def submit(self, count: int, run: str = "r", *options: str) -> None:
        """Submit jobs to a run, in addition to those that it has."""
        self.shell.write("urls.txt", "".join(f"https://a.org/{self._submitted + n}\n" for n in range(count)))
        self._submitted += count
        done = self.shell("submit", "page", "--urls-file", "urls.txt", "--run", run, *options)
        assert done.returncode == 0, done.stderr

    def work(self, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Work without a handler file, until nothing is left."""
        return self.shell("work", "--until-done", "--poll-interval", "1", *options, **variables)

    def imported(self) -> list[str]:
        """Return the versions whose code was imported in this folder, in order and each once."""
        path = self.shell.folder / "imported.txt"
        return list(dict.fromkeys(path.read_text().split())) if path.exists() else []

    def results(self, run: str = "r") -> list[tuple[Any, str]]:
        """Return the result of each completed job of a run, with the version that made it."""
        done = self.shell("jobs", "--run", run, "--state", "completed", "--json")
        jobs = json.loads(done.stdout) if done.returncode == 0 else []
        return sorted((job["result"], job["handler_version"]) for job in jobs)


def make_environment(folder: Path, package: Path) -> Path:
    """Make a new virtual environment, build and install the package into it, and return its `longshore` command.

    What the package needs is taken from the environment of the tests, so that no index is asked.
    """
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")]
    subprocess.run(build, cwd=package, check=True, capture_output=True)
    (wheel,) = (folder / "wheel").glob("*.whl")
    site = install_wheel(folder, wheel)
    needed = [path for path in sys.path if path.endswith("site-packages")]
    (site / "needed-by-longshore.pth").write_text("\n".join(needed) + "\n")
    return folder / "bin" / "longshore"


def install_wheel(folder: Path, wheel: Path) -> Path:
    """Make a virtual environment that has this wheel and nothing else, and return its folder of packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    return site
