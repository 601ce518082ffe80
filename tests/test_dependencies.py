"""The lowest allowed versions of libraries have no known weakness that a page could use, and the locks obey them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FIXED_IN = {
    "aiohttp": "3.13.3",  # decompression bombs, request smuggling, denial of service by headers and cookies
    "protego": "0.6.2",  # a rule of robots.txt that takes exponential time
    "curl-cffi": "0.15",  # redirects to addresses of a private network
}


def parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def floors() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    found = (re.match(r"([A-Za-z0-9_-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in lines)
    return {match[1].lower(): match[2] for match in found if match}


@pytest.mark.parametrize("name", FIXED_IN)
def test_no_allowed_version_has_a_known_weakness(name: str) -> None:
    assert parts(floors()[name]) >= parts(FIXED_IN[name])


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_the_locks_obey_the_lowest_allowed_versions(lock: str) -> None:
    locked = dict(re.findall(r"^([a-z0-9_.-]+)==([^ \\;]+)", (ROOT / lock).read_text(), re.MULTILINE))
    below = {
        name: locked[name] for name, floor in floors().items() if name in locked and parts(locked[name]) < parts(floor)
    }
    assert below == {}


def test_every_requirement_of_the_package_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[>\[;]", line)[0].lower() for line in project["dependencies"]}
    locked = set(re.findall(r"^([a-z0-9_.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert names - locked == set()
