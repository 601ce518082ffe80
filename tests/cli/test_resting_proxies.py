"""All proxies rest: whoever starts workers and watches them says so, once, and when they serve again."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

FETCHES = """from longshore import handler

@handler("page", timeout=60, retries=50)
async def page(job, kit):
    return {"length": len((await kit.http.get(job.payload["url"])).text)}
"""
SITE = "http://site.test/"


class Proxy:
    """A proxy that answers in place of every site. Nobody listens before it is started.

    After the first request it waits until it is seen that it serves: the jobs would be done before.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.server: ThreadingHTTPServer | None = None
        self.seen = threading.Event()

    def start(self) -> None:
        first, seen = iter([True]), self.seen

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not next(first, False):
                    seen.wait(20)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"a page")

            def log_message(self, *_: object) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Answer)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def proxy(shell: Shell) -> Iterator[Proxy]:
    made = Proxy()
    shell.write("pages.py", FETCHES)
    shell.write("proxies.txt", f"127.0.0.1:{made.port}\n")
    shell.write("urls.txt", "".join(f"{SITE}{number}\n" for number in range(4)))
    shell.environment |= {
        "PROXY_FILE": "proxies.txt",
        "PROXY_BLACKLIST_THRESHOLD": "1",
        "PROXY_BLACKLIST_DURATION_MINUTES": "0.1",
        "LONGSHORE_ROBOTS": "false",
        "LONGSHORE_HOST_FIRST_RATE": "100",
    }
    yield made
    if made.server is not None:
        made.server.shutdown()
        made.server.server_close()


def watched(command: subprocess.Popen[str], stream: Any, proxy: Proxy) -> list[str]:
    """What it says of the proxies, which begin to serve when it has said that they rest."""
    said = []
    for line in stream:
        if "proxies" in line.lower():
            said.append(line.strip())
        if "PROXIES" in line:
            if proxy.server is None:
                proxy.start()
            else:
                proxy.seen.set()
    command.communicate()
    return said


RESTS = "PROXIES: the only one rests at every host, until "
SERVES = "PROXIES: they serve again, and the jobs that waited go on."


def test_run_says_once_that_all_rest_and_when_they_serve_again(shell: Shell, proxy: Proxy) -> None:
    run = shell.start("run", "pages.py", "--urls-file", "urls.txt", "--workers", "1", "--out", "out.jsonl")
    said = watched(run, run.stderr, proxy)
    assert run.returncode == 0
    rests, serves, summary = said
    assert rests.startswith(RESTS)
    assert "logs/proxies.log" in rests
    assert serves == SERVES
    assert summary.startswith("proxies  0 of 1 rest ")
    # Also afterwards: whoever comes too late for the lines above asks what became of them.
    assert "At every host: 1 serve" in shell("proxies").stdout
    # Nothing went out without: there is no such site.
    assert len(Path(shell.folder, "out.jsonl").read_text().splitlines()) == 4


def test_a_fleet_says_it_too(shell: Shell, proxy: Proxy) -> None:
    assert shell("submit", "page", "--urls-file", "urls.txt", "--run", "r").returncode == 0
    fleet = shell.start("fleet", "pages.py", "--run", "r", "--workers", "1", "--stagger", "0", "--until-done", "--yes")
    said = watched(fleet, fleet.stdout, proxy)
    assert fleet.returncode == 0
    rests, serves = (line for line in said if "PROXIES" in line)
    assert rests.startswith(RESTS)
    assert serves == SERVES
    assert said[-1].startswith("Of the proxies, 0 of 1 rest: ")
    wait_until(lambda: SERVES in Path(shell.folder, "logs", "fleet.log").read_text())
