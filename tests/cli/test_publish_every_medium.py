"""The same words on every medium: publish, refuse, accept, work; and a volunteer who begins with an empty folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from tests.cli.conftest import Shell
from tests.cli.publishing import Person, make_environment
from tests.cli.test_serve import admin_key, free_port, serving
from tests.services.git_http import GitHttpServer
from tests.services.postgres import PostgresServer
from tests.services.warm import Warm

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["postgres", "directory", "git"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("server")
        return f"{server.url}?schema=published_{token_hex(4)}"
    if request.param == "directory":
        return f"dir://{tmp_path}/queue"
    subprocess.run(["git", "init", "--bare", "-q", str(tmp_path / "queue.git")], check=True)
    return f"git+file://{tmp_path}/queue.git"


@pytest.mark.ledger("F10")
def test_code_travels_on_every_medium(queue: str, tmp_path: Path, warm: Warm | None) -> None:
    host, volunteer = Person(tmp_path / "host", queue, warm), Person(tmp_path / "volunteer", queue, warm)
    host.submit(1)
    first = host.version("one")
    refused = volunteer.work()
    assert (refused.returncode, volunteer.imported()) == (2, []), refused.stderr
    accepted = volunteer.work("--accept", first)
    assert accepted.returncode == 0, accepted.stderr
    second = host.version("two")
    host.submit(1)
    refused = volunteer.work()
    assert (refused.returncode, volunteer.imported()) == (2, ["one"]), refused.stderr
    assert volunteer.work("--accept", second).returncode == 0
    assert host.results() == [("one", first[:12]), ("two", second[:12])]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `longshore` command of a new virtual environment, into which the package was installed from a wheel."""
    return make_environment(tmp_path_factory.mktemp("installed") / "environment", ROOT)


@pytest.fixture
def git_server(tmp_path: Path) -> Iterator[GitHttpServer]:
    (tmp_path / "repositories").mkdir()
    with GitHttpServer(tmp_path / "repositories") as running:
        running.make("queue.git")
        yield running


def one_line(longshore: Path, volunteer: Person, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The one line of a volunteer, in their folder."""
    return subprocess.run(
        [str(longshore), "work", "--until-done", "--poll-interval", "1", *options],
        cwd=volunteer.shell.folder,
        env=volunteer.shell.environment | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_volunteer_needs_one_line_for_a_git_queue_over_http(
    git_server: GitHttpServer, installed: Path, tmp_path: Path, warm: Warm | None
) -> None:
    queue = git_server.url("queue.git")
    host, volunteer = Person(tmp_path / "host", queue, warm), Person(tmp_path / "volunteer", queue)
    host.submit(2)
    fingerprint = host.version("one")
    refused = one_line(installed, volunteer)
    assert (refused.returncode, volunteer.imported()) == (2, []), refused.stderr
    assert "tide-and-time" not in refused.stderr
    done = one_line(installed, volunteer, "--accept", fingerprint)
    assert done.returncode == 0, done.stderr
    assert host.results() == [("one", fingerprint[:12])] * 2
    assert "tide-and-time" not in (volunteer.shell.folder / "home/config/longshore/accepted-code.json").read_text()


def test_a_volunteer_needs_one_line_and_a_key_for_a_server(
    shell: Shell, installed: Path, tmp_path: Path, warm: Warm | None
) -> None:
    port = free_port()
    with serving(shell, port):
        queue = f"http://127.0.0.1:{port}/api"
        host, volunteer = Person(tmp_path / "host", queue, warm), Person(tmp_path / "volunteer", queue)
        host.shell.environment["LONGSHORE_API_KEY"] = admin_key(shell)
        key = {"LONGSHORE_API_KEY": shell("keys", "add", "volunteer", "--scope", "work").stdout.strip()}
        host.submit(2)
        fingerprint = host.version("one")
        refused = one_line(installed, volunteer, **key)
        assert (refused.returncode, volunteer.imported()) == (2, []), refused.stderr
        assert one_line(installed, volunteer, "--accept", fingerprint, **key).returncode == 0
        assert host.results() == [("one", fingerprint[:12])] * 2
        volunteer.shell.write("evil.py", (host.shell.folder / "pages.py").read_text().replace("one", "evil"))
        published = volunteer.shell("publish", "evil.py", **key)
        assert (published.returncode, "may not change the shared state" in published.stderr) == (1, True)
        host.submit(1)
        last = one_line(installed, volunteer, **key)
        assert last.returncode == 0
        assert host.results() == [("one", fingerprint[:12])] * 3, last.stderr + host.shell("jobs").stdout
