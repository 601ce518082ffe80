"""`longshore serve` and `longshore keys`: a queue over HTTP, from the first key to the last job."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

WAITING = """
from longshore import handler


@handler("page", retries=3)
async def page(n: int, kit):
    return n * n
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def serving(shell: Shell, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run a server until the end of the block."""
    process = shell.start("serve", "--port", str(port), "--queue", "sqlite:///served.db")
    try:
        assert process.stdout is not None
        assert f"http://127.0.0.1:{port}/api" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def admin_key(shell: Shell) -> str:
    file = shell.folder / ".longshore" / "server" / "admin.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return file.read_text().strip()


def test_a_run_over_http_survives_a_server_that_is_killed(shell: Shell) -> None:
    shell.write("pages.py", WAITING)
    shell.write("jobs.jsonl", "".join(json.dumps({"n": n}) + "\n" for n in range(300)))
    port = free_port()
    queue = ("--queue", f"http://127.0.0.1:{port}/api")
    with serving(shell, port) as server:
        key = {"LONGSHORE_API_KEY": admin_key(shell)}
        submitted = shell("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r", *queue, **key)
        assert submitted.returncode == 0, submitted.stderr
        volunteer = shell("keys", "add", "volunteer", "--scope", "work", "--run", "r").stdout.strip()
        work = ("work", "pages.py", "--run", "r", "--until-done", "--concurrency", "4", *queue)
        worker = shell.start(*work, LONGSHORE_API_KEY=volunteer)
        assert worker.stderr is not None
        while "Completed work" not in worker.stderr.readline():
            assert worker.poll() is None, "the worker ended early"
        server.kill()
        server.wait()
    with serving(shell, port):
        worker.communicate(timeout=80)
        assert worker.returncode == 0
        status = json.loads(shell("status", "--json", *queue, **key).stdout)
        (run,) = status["runs"]
        assert (run["completed"], run["failed"], run["remaining"]) == (300, 0, 0)
        exported = shell("export", "r", *queue, **key)
        assert len(exported.stdout.splitlines()) == 300


def test_ctrl_c_stops_the_server_with_exit_code_0_even_while_a_worker_waits(shell: Shell) -> None:
    shell.write("pages.py", WAITING)
    port = free_port()
    with serving(shell, port) as server:
        worker = shell.start(
            "work", "pages.py", "--queue", f"http://127.0.0.1:{port}/api", LONGSHORE_API_KEY=admin_key(shell)
        )
        assert worker.stderr is not None
        while "No work available" not in worker.stderr.readline():
            assert worker.poll() is None, "the worker ended early"
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=60)
        assert (server.returncode, "Traceback" in errors) == (0, False), errors
        worker.kill()
        worker.communicate()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("keys", "add"), "needs a name"),
        (("keys", "add", "x"), "--scope work"),
        (("keys", "add", "x", "--scope", "wizard"), "submit, work, read, admin"),
        (("keys", "add", "x", "--scope", "admin", "--run", "r"), "reaches everything"),
        (("keys", "revoke", "x"), "no key 'x'"),
        (("keys", "show"), "add, list or revoke"),
        (("serve", "--tls-key", "x"), "both files"),
        (("serve", "--host", "no.such.address.invalid"), "cannot listen"),
        (("status", "--queue", "http://127.0.0.1:1/api"), "LONGSHORE_API_KEY"),
    ],
)
def test_bad_input_ends_in_one_message(shell: Shell, arguments: tuple[str, ...], told: str) -> None:
    ended = shell(*arguments)
    assert ended.returncode == 2, ended.stderr
    assert told in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_server_that_is_not_there_is_named(shell: Shell) -> None:
    ended = shell("status", "--queue", f"http://127.0.0.1:{free_port()}/api", LONGSHORE_API_KEY="lsk_x_y")
    assert (ended.returncode, "does not answer" in ended.stderr) == (1, True)


def test_a_port_that_is_taken_is_named(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = shell("serve", "--port", str(port))
    assert (ended.returncode, f"port {port}" in ended.stderr) == (2, True)


def test_the_key_of_env_is_used_and_never_shown(shell: Shell) -> None:
    port = free_port()
    with serving(shell, port):
        key = admin_key(shell)
        shell.write(".env", f"LONGSHORE_API_KEY={key}\nLONGSHORE_QUEUE=http://127.0.0.1:{port}/api\n")
        assert shell("status").returncode == 0
        shown = shell("config").stdout
        assert key not in shown
        assert "***" in shown


def test_keys_are_listed_without_their_secret(shell: Shell) -> None:
    key = shell("keys", "add", "anna", "--scope", "work,submit", "--kind", "page").stdout.strip()
    (row,) = json.loads(shell("keys", "list", "--json").stdout)
    assert (row["name"], row["scopes"], row["runs"], row["kinds"]) == ("anna", "work,submit", "all", "page")
    assert key not in shell("keys", "list").stdout
    assert shell("keys", "revoke", "anna").returncode == 0
    (row,) = json.loads(shell("keys", "list", "--json").stdout)
    assert row["state"] == "revoked"
