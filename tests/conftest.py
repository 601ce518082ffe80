"""What all tests share."""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.services.needing import needed
from tests.services.postgres import PostgresServer
from tests.services.warm import Warm
from tests.windows import SYSTEM, become_windows

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("longshore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("longshore")

FAKE_RESOLVER = Path(__file__).parent / "fake_resolver"
MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that must be free there: all tests at once need a fraction of it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long form of the proofs: more jobs, more kills")


def pytest_configure(config: pytest.Config) -> None:
    """Let the files of tests lie in memory where there is room: half of their time they would wait for the disk.

    What is synced and in which order is the same there, and what a killed process wrote is there as well; what a
    machine without power has kept, no test can see. With TMPDIR or --basetemp they lie where that says.
    """
    # Where that is set, each of the thousands of processes that tests start would compile the package anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Whoever runs tests in the background (`nohup`, `&`) may have them ignored, and so would all that tests start.
    for name, usual in (
        ("SIGHUP", signal.SIG_DFL),
        ("SIGINT", signal.default_int_handler),
        ("SIGQUIT", signal.SIG_DFL),
    ):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    _ask_no_name_server()
    # Users have buffers, and what cannot be flushed from them is noticed last.
    os.environ.pop("PYTHONUNBUFFERED", None)
    if config.getoption("basetemp") or os.environ.get("TMPDIR"):
        return
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
        folder = MEMORY / f"longshore-tests-{os.getuid()}"
        # Others may pass through: a server that refuses root runs as somebody else.
        folder.mkdir(mode=0o711, exist_ok=True)
        # The environment is for the processes that run the tests, and those that tests start.
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _ask_no_name_server() -> None:
    """Resolve names of this machine only, here and in every Python process that tests start."""
    paths = [str(FAKE_RESOLVER), *filter(None, [os.environ.get("PYTHONPATH")])]
    if str(FAKE_RESOLVER) not in os.environ.get("PYTHONPATH", ""):
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        runpy.run_path(str(FAKE_RESOLVER / "sitecustomize.py"))


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL for all tests of a process, each with a schema of its own; who stops it needs one of its own."""
    with needed():
        running = PostgresServer()
    with running:
        yield running


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm | None]:
    """What spares commands their imports, where processes can be copied: macOS has libraries that do not bear it."""
    if sys.platform != "linux":
        yield None
        return
    with Warm() as running:
        yield running


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What differs between systems is done as on Windows."""
    become_windows(monkeypatch, *SYSTEM)


@pytest.fixture
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the long form of a proof is asked for."""
    return bool(request.config.getoption("--long"))
