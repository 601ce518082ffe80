"""The proxy of the environment, under the commands that fetch pages (A16)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from .conftest import Shell

HANDLERS = """
from longshore import handler

@handler("page")
async def page(url: str, kit):
    return (await kit.http.get(url)).text

@handler("plain")
def plain(url: str, kit):
    return kit.http.get(url).text
"""


class CompanyProxy(BaseHTTPRequestHandler):
    """A proxy that answers every request itself, with the URL that it was asked for."""

    def do_GET(self) -> None:
        body = b"" if self.path.endswith("/robots.txt") else self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def company_proxy() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), CompanyProxy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.ledger("A16")
@pytest.mark.parametrize("kind", ["page", "plain"])
@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
def test_a_run_fetches_through_the_proxy_that_dotenv_names(
    shell: Shell, company_proxy: str, kind: str, transport: str
) -> None:
    shell.write("handlers.py", HANDLERS)
    shell.write("urls.txt", "http://shop.example.test/a\n")
    shell.write(".env", f"HTTP_PROXY={company_proxy}\nLONGSHORE_TRANSPORT={transport}\n")
    done = shell("run", "handlers.py", "--kind", kind, "--urls-file", "urls.txt", "--run", "r", "--out", "out.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (shell.folder / "out.jsonl").read_text().splitlines()
    assert json.loads(line)["result"] == "http://shop.example.test/a"


def test_a_variable_that_names_no_proxy_ends_a_run_before_it_begins(shell: Shell) -> None:
    shell.write("handlers.py", HANDLERS)
    shell.write("urls.txt", "http://shop.example.test/a\n")
    shell.write(".env", "HTTPS_PROXY=ftp://me:hunter2@proxy:21\n")
    done = shell("run", "handlers.py", "--kind", "page", "--urls-file", "urls.txt")
    assert done.returncode == 2
    assert "HTTPS_PROXY is not the URL of a proxy" in done.stderr
    assert "hunter2" not in done.stderr
