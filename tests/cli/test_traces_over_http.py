"""A worker with a URL and a key alone: its records, pages and failure bundles are at the server, and nowhere else."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.cli.test_serve import admin_key, free_port, serving
from tests.services.warm import Warm

BROKEN = """
from longshore import handler

@handler("page", retries=0)
{how} page(url: str, kit):
    text = ({wait} kit.http.get(url)).text
    kit.emit({{"title": text.split("<title>")[1]}}, kind="title")
    kit.emit({{"text": text}}, kind="text")
    return len(text)
"""
FIXED = BROKEN.replace('text.split("<title>")[1]', 'text.upper().split("<TITLE>")[1]')
HOWS = {"async": {"how": "async def", "wait": "await"}, "plain": {"how": "def", "wait": ""}}
PAGES = 12


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if not self.path[1:].isdigit():
            self.send_error(404)
            return
        number = int(self.path[1:])
        body = f"<TITLE>page {number}" if number % 4 == 0 else f"<title>page {number}"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def away(tmp_path: Path, warm: Warm | None) -> Shell:
    """The machine of a volunteer: another folder."""
    (tmp_path / "away").mkdir()
    return Shell(tmp_path / "away", warm)


@pytest.mark.ledger("F5", "F11")
@pytest.mark.parametrize("how", HOWS)
def test_a_run_over_http_leaves_its_traces_at_the_server_and_nothing_with_the_worker(
    shell: Shell, away: Shell, site: str, how: str
) -> None:
    away.write("pages.py", BROKEN.format(**HOWS[how]))
    away.write("urls.txt", "".join(f"{site}/{n}\n" for n in range(PAGES)))
    port = free_port()
    with serving(shell, port):
        away.environment |= {
            "LONGSHORE_QUEUE": f"http://127.0.0.1:{port}/api",
            "LONGSHORE_API_KEY": admin_key(shell),
            "LONGSHORE_KEEP_PAGES": "1",
            "LONGSHORE_HOST_FIRST_RATE": "500",
        }
        assert away("submit", "page", "--urls-file", "urls.txt", "--run", "r").returncode == 0
        volunteer = shell("keys", "add", "volunteer", "--scope", "work").stdout.strip()
        worked = away("work", "pages.py", "--run", "r", "--until-done", LONGSHORE_API_KEY=volunteer)
        assert "Kept this failure: longshore replay r-IndexError-page-" in worked.stderr
        left = {path.relative_to(away.folder) for path in away.folder.rglob("*") if path.is_file()}
        # Its log stays with the worker, for `longshore doctor --report`.
        assert {path for path in left if path.parts[0] != "logs"} == {Path("pages.py"), Path("urls.txt")}

        assert away.json("records", "r", "--json")["kept"] == {"title": 9, "text": 9}
        titles = {
            json.loads(line)["data"]["title"] for line in away("export", "r", "--records", "title").stdout.splitlines()
        }
        assert titles == {f"page {n}" for n in range(PAGES) if n % 4}

        (kept,) = [path.name for path in (shell.folder / ".longshore" / "bundles").iterdir()]
        assert away("replay", kept, "pages.py").returncode == 1
        away.write("pages.py", FIXED.format(**HOWS[how]))
        replayed = away("replay", kept, "pages.py")
        assert (replayed.returncode, "It passes now" in replayed.stdout) == (0, True), replayed.stderr

        reparsed = away("reparse", "r", "pages.py", "--json")
        done = json.loads(reparsed.stdout)
        assert (reparsed.returncode, done["repaired"], done["refreshed"]) == (0, 3, 9), reparsed.stderr
        assert away.json("records", "r", "--json")["kept"] == {"title": 12, "text": 12}

    # The same from the machine of the server, without it.
    here = ("--queue", "sqlite:///served.db")
    assert shell.json("records", "r", "--json", *here)["kept"] == {"title": 12, "text": 12}
    shutil.copy(away.folder / "pages.py", shell.folder / "pages.py")
    assert shell("replay", f".longshore/bundles/{kept}", "pages.py").returncode == 0
    done = shell.json("reparse", "r", "pages.py", "--json", *here)
    assert (done["refreshed"], done["without_pages"]) == (12, 0)


def test_pruned_jobs_take_their_records_at_the_server_with_them(shell: Shell, away: Shell, site: str) -> None:
    away.write("pages.py", FIXED.format(**HOWS["async"]))
    away.write("urls.txt", "".join(f"{site}/{n}\n" for n in range(PAGES)))
    port = free_port()
    with serving(shell, port):
        away.environment |= {
            "LONGSHORE_QUEUE": f"http://127.0.0.1:{port}/api",
            "LONGSHORE_API_KEY": admin_key(shell),
            "LONGSHORE_HOST_FIRST_RATE": "500",
        }
        ran = away("run", "pages.py", "--urls-file", "urls.txt", "--run", "r")
        assert ran.returncode == 0, ran.stderr
        assert "12 title" in ran.stderr
        assert away("prune", "--run", "r", "--yes").returncode == 0
    left = {path.name for path in (shell.folder / ".longshore" / "records").iterdir()}
    assert left <= {"health"}, "the server notes its health there"


def test_a_move_from_a_server_does_not_delete_records(shell: Shell, away: Shell, site: str) -> None:
    away.write("pages.py", FIXED.format(**HOWS["async"]))
    away.write("urls.txt", "".join(f"{site}/{n}\n" for n in range(3)))
    port = free_port()
    with serving(shell, port):
        url = f"http://127.0.0.1:{port}/api"
        away.environment |= {"LONGSHORE_QUEUE": url, "LONGSHORE_API_KEY": admin_key(shell)}
        away("submit", "page", "--urls-file", "urls.txt", "--run", "r")
        away("work", "pages.py", "--until-done", "--concurrency", "1", "--max-work", "2")
        copied = away("copy", url, "copied.db").stdout
        assert "Their 4 records did not come along" in copied
        move = away("copy", url, "moved.db", "--move")
        assert move.returncode == 1
        moved = move.stdout
        assert "1 job moved" in moved
        assert "2 completed jobs have stayed" in moved
        lines = away("export", "r", "--records").stdout.splitlines()
        assert len(lines) == 4
