"""`demo` and `init`, the examples, and the generated pages."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from longshore.cli.reference_pages import pages
from longshore.settings.table import DEFAULT_QUEUE

from .conftest import Shell

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_the_demo_goes_as_planned_and_every_command_it_prints_works(shell: Shell) -> None:
    done = shell("demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "148 pages scraped, 2 failed as planned" in done.stderr
    assert "5 pages failed at first" in done.stderr
    assert "timeout (TimedOutError)" in done.stderr
    assert "500 Internal Server Error" in done.stderr
    assert "\x1b" not in done.stderr
    printed = re.findall(r"-m longshore (.*)", done.stderr)
    assert len(printed) == 3
    for command in printed:
        assert shell(*shlex.split(command)).returncode == 0
    folder = shell.folder / ".longshore" / "demo" / "1"
    assert len((folder / "results.jsonl").read_text().splitlines()) == 148


def test_init_makes_a_folder_whose_test_passes_and_whose_handler_runs(shell: Shell) -> None:
    done = shell("init", "shop")
    assert done.returncode == 0, done.stderr
    made = shell.folder / "shop"
    settings = {".env", ".env.example", "pytest.ini", ".gitignore"}
    assert {path.name for path in made.iterdir()} == settings | {
        "handlers.py",
        "test_handlers.py",
        "urls.txt",
        "README.md",
    }
    *_, install, test, run = (line.strip() for line in done.stdout.splitlines())
    assert install == f"{test.removesuffix(' -m pytest')} -m pip install pytest"
    assert run == f"{test.removesuffix(' -m pytest')} -m longshore run handlers.py --urls-file urls.txt"
    assert "python -m pip install pytest" in (made / "README.md").read_text()
    tested = subprocess.run(
        [*shlex.split(test), "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=made,
        env=shell.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "3 passed" in tested.stdout
    assert "warning" not in (tested.stdout + tested.stderr).lower()
    config = subprocess.run(
        [sys.executable, "-m", "longshore", "config", "--json"],
        cwd=made,
        env=shell.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    queue = json.loads(config.stdout)["queue"]
    assert (queue["value"], queue["source"]) == (DEFAULT_QUEUE, ".env")


def test_a_fleet_starts_in_the_folder_that_init_made(shell: Shell) -> None:
    assert shell("init", ".").returncode == 0
    done = shell("fleet", "handlers.py", "--workers", "1", "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " fail " not in done.stdout


SHOP = {
    "/": "<title>Shop</title> <a class=item href=/1>Cups</a> <a rel=next href=/more>More</a>",
    "/more": "<title>More</title> <a class=item href=/2>Plates</a>",
    "/1": "<title>Cups</title> <h1>Cups</h1> <b class=price>7.50</b>",
    "/2": "<title>Plates</title> <h1>Plates</h1>",
}


class ShopPages(BaseHTTPRequestHandler):
    """A site of four pages."""

    def do_GET(self) -> None:
        html = SHOP.get(self.path)
        self.send_response(404 if html is None else 200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write((html or "").encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    """The address of the shop."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ShopPages) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("template", "file", "rows"),
    [
        ("pages", "results.jsonl", 1),
        ("crawl", "pages.csv", 5),
        ("items", "items.csv", 3),
        ("documents", "documents.csv", 3),
        ("class", "results.jsonl", 2),
    ],
)
def test_every_template_has_a_test_that_passes_and_commands_that_work(
    shell: Shell, site: str, template: str, file: str, rows: int
) -> None:
    done = shell("init", "made", "--template", template)
    assert done.returncode == 0, done.stderr
    made = shell.folder / "made"
    # A fleet starts in no folder whose queue is not named.
    assert f"LONGSHORE_QUEUE={DEFAULT_QUEUE}" in (made / ".env").read_text().splitlines()
    *_, test = (line for line in done.stdout.splitlines() if line.endswith("-m pytest"))
    commands = [line.strip() for line in done.stdout.partition(test)[2].splitlines() if line]
    readme = (made / "README.md").read_text()
    assert [line for line in commands if line.partition(" -m longshore ")[2] not in readme] == []
    if (made / "urls.txt").exists():
        (made / "urls.txt").write_text(f"{site}/\n")
    for command in (f"{test.strip()} -q -W error -p no:cacheprovider", *commands):
        ran = subprocess.run(
            shlex.split(command), cwd=made, env=shell.environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    assert len((made / file).read_text().splitlines()) == rows


def test_a_template_that_there_is_not_is_refused_with_those_there_are(shell: Shell) -> None:
    done = shell("init", "made", "--template", "shop")
    assert done.returncode == 2
    assert "There is no template 'shop'. The templates are: pages, crawl, items, documents, class." in done.stderr
    assert not (shell.folder / "made").exists()


def test_init_overwrites_nothing(shell: Shell) -> None:
    (shell.folder / "shop").mkdir()
    shell.write("shop/urls.txt", "mine\n")
    done = shell("init", "shop")
    assert done.returncode == 2
    assert "shop has urls.txt already" in done.stderr
    assert os.listdir(shell.folder / "shop") == ["urls.txt"]  # noqa: PTH208
    done = shell("init", "shop/urls.txt")
    assert done.returncode == 2
    assert "is a file" in done.stderr


@pytest.mark.parametrize(
    ("file", "option", "jobs", "count"),
    [
        ("smallest.py", "--urls-file", "urls.txt", 5),
        ("documents.py", "--jobs-file", "documents.jsonl", 3),
        ("us_states.py", "--jobs-file", "us_states.jsonl", 255),
    ],
)
def test_the_examples_run_as_they_are(shell: Shell, file: str, option: str, jobs: str, count: int) -> None:
    done = shell("run", str(EXAMPLES / file), option, str(EXAMPLES / jobs), "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert len((shell.folder / "results.jsonl").read_text().splitlines()) == count


def test_the_example_for_the_local_site_scrapes_it(shell: Shell) -> None:
    served = subprocess.Popen(
        [sys.executable, "-m", "longshore.demo.site", "--pages", "30", "--port", "0", "--urls-file", "urls.txt"],
        cwd=shell.folder,
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert served.stdout
        assert "Serving 30 pages" in served.stdout.readline()
        done = shell("run", str(EXAMPLES / "site.py"), "--urls-file", "urls.txt")
        assert done.returncode == 0, done.stderr
    finally:
        served.kill()
        served.communicate()
    lines = [json.loads(line) for line in (shell.folder / "results.jsonl").read_text().splitlines()]
    assert len(lines) == 30
    assert all(line["result"]["price"] > 0 and line["result"]["links"] for line in lines)


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_generated_pages_are_current(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == pages()[name], "Run: python -m longshore.cli.reference_pages"
