"""`fetch`, `shell` and `run FILE URL`: one page, as a handler would fetch it."""

from __future__ import annotations

import http.server
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.kept_run import run_broken

from longshore.cli import main

from .conftest import Shell

PAGE = b"<title>Cups</title><h1> Blue  <b>cup</b></h1><a href=/2>two</a><a href=/file.pdf>file</a>"


class _Site(http.server.BaseHTTPRequestHandler):
    agents: list[str]
    sitemap = b""

    def do_GET(self) -> None:
        self.agents.append(self.headers["User-Agent"])
        status = 200 if self.path in ("/", "/2", "/odd", "/robots.txt", "/sitemap.xml") else 404
        bodies = {
            "/odd": b"<p>ok\x1b]0;owned\x07\x1b[31m</p>",
            "/robots.txt": b"User-agent: *\nDisallow: /private",
            "/sitemap.xml": self.sitemap,
        }
        body = bodies.get(self.path, PAGE)
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("X-Shop", "cups\x1b[31m")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    _Site.agents = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_fetch_prints_the_page(shell: Shell, site: str) -> None:
    done = shell("fetch", f"{site}/", LONGSHORE_USER_AGENT="cupbot/1")
    assert (done.returncode, done.stdout, done.stderr) == (0, PAGE.decode(), "")
    assert set(_Site.agents) == {"cupbot/1"}, "as the settings say"


def test_fetch_prints_the_text_of_elements(shell: Shell, site: str) -> None:
    assert shell("fetch", f"{site}/", "--css", "h1, a").stdout == "Blue cup\ntwo\nfile\n"
    done = shell("fetch", f"{site}/", "--css", "table")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Nothing matches table" in done.stderr


def test_fetch_prints_the_headers_without_control_characters(shell: Shell, site: str) -> None:
    shown = shell("fetch", f"{site}/", "--headers").stdout
    assert shown.startswith("200 OK\n")
    assert "X-Shop: cups" in shown
    assert "\x1b" not in shown


def test_fetch_prints_all_links(shell: Shell, site: str) -> None:
    assert shell("fetch", f"{site}/", "--links").stdout == f"{site}/2\n{site}/file.pdf\n"


def test_a_failed_status_is_said_and_the_page_is_printed(shell: Shell, site: str) -> None:
    done = shell("fetch", f"{site}/none")
    assert (done.returncode, done.stdout) == (1, PAGE.decode())
    assert "404 Not Found" in done.stderr


def test_fetch_obeys_robots_txt(shell: Shell, site: str) -> None:
    done = shell("fetch", f"{site}/private")
    assert done.returncode == 1
    assert "robots.txt" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("url", ["a.org", "ftp://a.org/", "https://a.org:x/"])
@pytest.mark.parametrize("verb", ["fetch", "shell"])
def test_no_web_page_is_refused(here: Path, refused: Callable[..., str], verb: str, url: str) -> None:
    assert url in refused(verb, url)


def test_a_program_in_a_pipe_has_the_page(shell: Shell, site: str) -> None:
    program = "print(page.text_of('h1'), fetch(page.links()[0]).url, kit.http.get(page.url).status)"
    done = shell("shell", f"{site}/", stdin=program)
    assert (done.returncode, done.stdout) == (0, f"Blue cup {site}/2 200\n")
    broken = shell("shell", f"{site}/", stdin="page.no_such_name")
    assert broken.returncode == 1
    assert "no_such_name" in broken.stderr


def test_a_prompt_says_what_there_is(shell: Shell, site: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "longshore", "shell", f"{site}/"]
    with subprocess.Popen(
        command, cwd=shell.folder, env=shell.environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = _read_until(ours, b">>> ")
        assert b"200 OK, " in shown
        assert b"view(page)" in shown
        os.write(ours, b"page.text_of('h1')\n")
        assert b"'Blue cup'" in _read_until(ours, b">>> ")
        os.write(ours, b"\x04")
        _read_until(ours, b"")
        assert process.wait() == 0
    os.close(ours)


def test_a_fetched_page_gives_no_orders_to_the_terminal(shell: Shell, site: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "longshore", "fetch", f"{site}/odd"]
    with subprocess.Popen(
        command, cwd=shell.folder, env=shell.environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = _read_until(ours, b"")
        assert process.wait() == 0
    os.close(ours)
    assert b"<p>ok" in shown
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
    piped = subprocess.run(command, cwd=shell.folder, env=shell.environment, capture_output=True, check=True)
    assert piped.stdout == b"<p>ok\x1b]0;owned\x07\x1b[31m</p>"


def _read_until(terminal: int, end: bytes) -> bytes:
    shown = b""
    while not (end and end in shown):
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux says so at the end
            break
        shown += piece
    return shown


def test_a_kept_failure_and_a_kept_job_are_opened_without_a_network(shell: Shell) -> None:
    run_broken(shell.folder, 1)
    (bundle,) = (shell.folder / ".longshore" / "bundles").iterdir()
    program = "print(page.text, len(pages), fetch(page.url).text, job.kind, failure.error_type)"
    done = shell("shell", "--bundle", str(bundle), stdin=program)
    assert done.stdout == "0,1,x 1 0,1,x page unknown\n", done.stderr
    (job,) = shell.json("jobs", "--json")
    assert shell("shell", "--job", job["id"], stdin="print(page.text)").stdout == "0,1,x\n"
    missing = shell("shell", "--job", "999", stdin="")
    assert (missing.returncode, "There is no job '999'" in missing.stderr) == (2, True)
    both = shell("shell", "https://a.org/", "--job", "1", stdin="")
    assert (both.returncode, "one of them" in both.stderr) == (2, True)


def test_urls_on_the_command_line_are_jobs(shell: Shell) -> None:
    done = shell("run", "pages.py", "https://a.org/1", "--url", "https://a.org/2", "--out", "out.jsonl")
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in (shell.folder / "out.jsonl").read_text().splitlines()]
    assert {each["payload"]["url"] for each in results} == {"https://a.org/1", "https://a.org/2"}


def test_urls_can_be_submitted(shell: Shell) -> None:
    assert shell.json("submit", "page", "--url", "https://a.org/1", "--url", "https://a.org/2")["submitted"] == 2


def test_the_pages_of_a_sitemap_are_jobs_and_others_are_named(shell: Shell, site: str) -> None:
    _Site.sitemap = f"<url><loc>{site}/1</loc></url><url><loc>https://b.org/</loc></url>".encode()
    done = shell("submit", "page", "--sitemap", f"{site}/sitemap.xml")
    assert json.loads(done.stdout)["submitted"] == 1
    assert "1 page of another site was left out" in done.stderr
    refused = shell("submit", "page", "--url", "https://a.org/", "--since", "2026-01-31")
    assert (refused.returncode, "--since belongs to --sitemap" in refused.stderr) == (2, True)


def test_no_url_and_a_file_beside_urls_are_refused(here: Path, refused: Callable[..., str]) -> None:
    (here / "pages.py").write_text("")
    assert "'a.org' is not a URL. Did you mean https://a.org ?" in refused("submit", "page", "--url", "a.org", code=2)
    assert "one of them" in refused("run", "pages.py", "https://a.org/", "--urls-file", "x.txt")


def test_the_prompt_begins_with_a_line_for_each_thing_it_has(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    banners: list[str] = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("code.interact", lambda banner, **_: banners.append(banner))
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert main(["shell"]) == 0
    assert [line.split()[0] for line in banners[0].splitlines()] == ["fetch", "kit", "try", "Ctrl-D"]
