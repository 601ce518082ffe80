"""`longshore serve` and `longshore keys`: a queue over HTTP, from the first key to the last job."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import wait_until

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
def serving(shell: Shell, port: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a server until the end of the block."""
    process = shell.start("serve", "--port", str(port), "--queue", "sqlite:///served.db", *options)
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
        (("serve", "--host", "0.0.0.0", "--port", "0"), "keys add NAME --scope admin"),
        (("serve", "--host", "::", "--port", "0"), "keys add NAME --scope admin"),
        (("status", "--queue", "http://127.0.0.1:1/api"), "LONGSHORE_API_KEY"),
    ],
)
def test_bad_input_ends_in_one_message(shell: Shell, arguments: tuple[str, ...], told: str) -> None:
    ended = shell(*arguments)
    assert ended.returncode == 2, ended.stderr
    assert told in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.ledger("E12")
def test_other_machines_reach_a_server_only_after_a_key_was_made(shell: Shell) -> None:
    assert shell("keys", "add", "me", "--scope", "admin").returncode == 0
    assert "cannot listen" in shell("serve", "--host", "no.such.address.invalid").stderr
    process = shell.start("serve", "--host", "0.0.0.0", "--port", "0", "--queue", "sqlite:///served.db")
    try:
        assert process.stdout is not None
        assert "http://0.0.0.0:" in process.stdout.readline()
    finally:
        process.terminate()
        _, errors = process.communicate()
    assert "Without TLS everyone on the network can read the keys" in errors


def test_a_client_cannot_give_itself_a_new_address_with_each_wrong_key(shell: Shell) -> None:
    port = free_port()
    with serving(shell, port):
        statuses = [_refused(port, {"X-Forwarded-For": f"198.51.100.{number}"}) for number in range(22)]
    assert (statuses[0], statuses[-1]) == (401, 429)


def test_a_server_that_is_not_there_is_named(shell: Shell) -> None:
    ended = shell("status", "--queue", f"http://127.0.0.1:{free_port()}/api", LONGSHORE_API_KEY="lsk_x_y")
    assert (ended.returncode, "does not answer" in ended.stderr) == (1, True)


def test_a_port_that_is_taken_is_named(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = shell("serve", "--port", str(port))
    assert (ended.returncode, f"port {port}" in ended.stderr) == (2, True)


def test_a_read_only_server_shows_a_queue_and_refuses_to_work_on_it(shell: Shell) -> None:
    missing = shell("serve", "--read-only", "--port", "0")
    assert (missing.returncode, "There is no queue" in missing.stderr) == (2, True)
    assert not (shell.folder / ".longshore").exists()
    shell.write("pages.py", WAITING)
    shell.write("jobs.jsonl", '{"n": 1}\n')
    local = ("--queue", "sqlite:///served.db")
    assert shell("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "r", *local).returncode == 0
    port = free_port()
    served = ("--queue", f"http://127.0.0.1:{port}/api")
    with serving(shell, port, "--read-only"):
        key = {"LONGSHORE_API_KEY": admin_key(shell)}
        assert json.loads(shell("status", "--json", *served, **key).stdout)["runs"][0]["pending"] == 1
        for refused in (
            shell("work", "pages.py", "--run", "r", "--until-done", *served, **key),
            shell("cancel", "--run", "r", "--yes", *served, **key),
            shell("submit", "page", "--jobs-file", "jobs.jsonl", "--run", "s", *served, **key),
            shell("pause", "r", *served, **key),
        ):
            assert refused.returncode == 1, refused.stderr
            assert "The server is read-only" in refused.stderr
            assert "Traceback" not in refused.stderr
    assert json.loads(shell("status", "--json", *local).stdout)["runs"][0]["pending"] == 1


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


def _refused(port: int, headers: dict[str, str]) -> int:
    """Return the status of a request with a wrong key."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/stats", headers={"Authorization": "Bearer lsk_x_y", **headers}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    with refused.value:
        return refused.value.code


def _asked(url: str, key: str, body: object = None, host: str | None = None, certificate: str | None = None) -> Any:
    """Return the JSON of an answer."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    if host is not None:
        headers["Host"] = host
    data = None if body is None else json.dumps(body).encode()
    trusted = None if certificate is None else ssl.create_default_context(cafile=certificate)
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), context=trusted) as answer:
        return json.loads(answer.read())


def test_a_worker_over_http_drains_when_a_person_asks_it_to(shell: Shell) -> None:
    shell.write("pages.py", WAITING)
    port = free_port()
    api = f"http://127.0.0.1:{port}/api"
    with serving(shell, port):
        key = admin_key(shell)
        worker = shell.start("work", "pages.py", "--queue", api, "--worker-id", "anna", LONGSHORE_API_KEY=key)
        wait_until(lambda: bool(_asked(f"{api}/v1/workers", key)["workers"]))
        (listed,) = _asked(f"{api}/v1/workers", key)["workers"]
        named = {"label": listed["label"], "incarnation": listed["incarnation"]}
        assert _asked(f"{api}/v1/workers/orders", key, {**named, "order": "drain"}) == {"ordered": True}
        said, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0, said
        assert _asked(f"{api}/v1/workers", key)["workers"] == []
        (kind,) = _asked(f"{api}/v1/kinds", key)["kinds"]
        assert kind["schema"]["required"] == ["n"]


@pytest.mark.ledger("E12")
def test_a_server_with_a_certificate_is_reached_over_tls_and_only_under_its_names(shell: Shell) -> None:
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    request = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        names,
    ]
    files = ["-keyout", str(shell.folder / "key.pem"), "-out", str(shell.folder / "cert.pem")]
    subprocess.run(["openssl", *request, *files], check=True, capture_output=True)
    port = free_port()
    options = ("--tls-certificate", "cert.pem", "--tls-key", "key.pem", "--allowed-host", "longshore.test")
    process = shell.start("serve", "--port", str(port), "--queue", "sqlite:///served.db", *options)
    try:
        assert process.stdout is not None
        assert f"https://127.0.0.1:{port}/api" in process.stdout.readline()
        key, certificate = admin_key(shell), str(shell.folder / "cert.pem")
        api = f"https://localhost:{port}/api/v1/stats"
        for host in (None, "longshore.test", f"LONGSHORE.test:{port}"):
            assert _asked(api, key, host=host, certificate=certificate) == {"counts": []}
        with pytest.raises(urllib.error.HTTPError, match="400"):
            _asked(api, key, host="evil.test", certificate=certificate)
        queue = ("--queue", f"https://localhost:{port}/api")
        untrusted = shell("status", *queue, LONGSHORE_API_KEY=key)
        assert (untrusted.returncode, "certificate" in untrusted.stderr) == (1, True)
        # A process of its own: certificates are read when it starts.
        trusting = shell.start("status", *queue, LONGSHORE_API_KEY=key, SSL_CERT_FILE=certificate)
        _, errors = trusting.communicate(timeout=60)
        assert trusting.returncode == 0, errors
    finally:
        process.kill()
        process.communicate()
