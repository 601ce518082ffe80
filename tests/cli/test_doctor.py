"""`longshore doctor` (A18, A20): all that is wrong, each with its fix; and the report that a helper asks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longshore.cli.support_report import concealed

NO_CHECK = {"LONGSHORE_PROFILE": "testing"}


def verdicts(shell: Any, *arguments: str, **variables: str) -> dict[str, str]:
    done = shell("doctor", *arguments, "--json", **variables)
    found = json.loads(done.stdout)
    assert found["ok"] == (done.returncode == 0)
    return {check["name"]: check["verdict"] for check in found["checks"]}


def test_a_sound_folder_passes(shell: Any) -> None:
    done = shell("doctor", "pages.py", **NO_CHECK)
    assert done.returncode == 0, done.stdout
    assert "pages.py handles page." in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Nothing failed: ")
    assert sorted(path.name for path in shell.folder.iterdir() if path.name != "__pycache__") == ["pages.py"]


def test_all_that_is_wrong_is_told_at_once_with_its_fix(shell: Any, unused_tcp_port: int) -> None:
    shell.write("broken.py", "def page(:\n")
    shell.write("proxies.txt", "nonsense\n")
    shell.write("table.toml", '0 = ["CA"]\n1 = ["CA"]\n')
    shell.write(".env.example", "# LONGSHORE_QUEUE=\n")
    url = f"postgresql://ann:geheim@127.0.0.1:{unused_tcp_port}/jobs"
    arguments = ("doctor", "broken.py", "--table", "table.toml", "--partitions", "CA,NY", "--queue", url)
    done = shell(*arguments, PROXY_FILE="proxies.txt")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    failed = {line.split()[1]: number for number, line in enumerate(lines) if line.startswith("fail ")}
    assert set(failed) == {"handlers", "queue", "partitions", "proxies", "network"}
    assert all(lines[number + 1].strip().startswith("fix: ") for number in failed.values())
    assert "There is no .env here" in done.stdout
    assert "geheim" not in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert lines[-1].startswith("5 checks failed")


def test_a_missing_dotenv_is_a_fault_where_the_project_has_an_example_of_one(shell: Any) -> None:
    shell.write(".env.example", "")
    assert verdicts(shell)[".env"] == "fail"
    shell.write(".env", "LONGSHORE_PROFILE=testing\n")
    assert verdicts(shell)[".env"] == "ok"


def test_settings_that_cannot_be_read_are_a_finding_like_others(shell: Any) -> None:
    found = verdicts(shell, "pages.py", LONGSHORE_CONCURRENCY="many")
    assert (found["settings"], found["handlers"], found["queue"]) == ("fail", "ok", "ok")


@pytest.mark.parametrize("queue", ["postgres//ann:geheim@h/db", "ann:geheim@h:q.git"])
def test_the_report_shows_no_password_of_a_mistyped_queue(shell: Any, queue: str) -> None:
    done = shell("doctor", "--report", "-", "--queue", queue)
    assert "--queue" in done.stdout
    assert "geheim" not in done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
def test_on_a_terminal_nothing_is_wider_than_it(shell: Any) -> None:
    shell.write("proxies.txt", "nonsense\n")
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "longshore", "doctor", "pages.py", "--partitions", "us-states"],
        cwd=shell.folder,
        env=shell.environment | {"PROXY_FILE": "proxies.txt", "TERM": "dumb", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while piece := _read(ours):
        shown += piece
    os.close(ours)
    assert process.wait() == 1
    text = shown.decode()
    assert "✗  proxies" in text
    assert "→ " in text
    assert max(map(len, text.splitlines())) <= 100


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # on Linux, how a terminal says that nobody is on its other side
        return b""


class TestReport:
    def test_holds_what_a_helper_asks_for(self, shell: Any) -> None:
        shell.write(".env", "LONGSHORE_LEASE_SECONDS=60\nLONGSHORE_PROFILE=testing\nMY_API_KEY=geheim-aus-dotenv\n")
        (shell.folder / "logs").mkdir()
        log = "fetching https://ann:geheim@x.org/a?token=geheim with geheim-aus-dotenv through 10.0.0.1:80:bob:geheim\n"
        shell.write("logs/worker_0.log", "too long ago\n" + log * 50)
        done = shell("doctor", "pages.py", "--report", "out.txt", "--queue", "sqlite:///q.db")
        assert done.returncode == 0
        assert str(shell.folder / "out.txt") in done.stderr
        text = (shell.folder / "out.txt").read_text(encoding="utf-8")
        for word in ("system", "python", "git", "browser", "memory", "disk", "Network", "Checks", "Settings"):
            assert word in text, word
        assert "longshore doctor pages.py --report out.txt --queue sqlite:///q.db" in text
        assert "lease_seconds" in text
        assert "60  (LONGSHORE_LEASE_SECONDS (.env))" in text
        assert str(shell.folder) in text
        assert "The last lines of logs/worker_0.log" in text
        assert "fetching https://ann:***@x.org/a?token=*** with *** through 10.0.0.1:80:bob:***" in text
        assert "too long ago" not in text
        assert "geheim" not in text

    def test_without_a_name_gets_one_of_its_own(self, shell: Any) -> None:
        done = shell("doctor", "--report", "pages.py", **NO_CHECK)
        (path,) = shell.folder.glob("longshore-report-*.txt")
        assert path.name in done.stderr
        assert "pages.py handles page." in path.read_text(encoding="utf-8")

    def test_is_written_where_settings_and_handlers_are_broken(self, shell: Any) -> None:
        shell.write("longshore.toml", "[longshore\n")
        shell.write("broken.py", "1 +\n")
        done = shell("doctor", "broken.py", "--report")
        assert done.returncode == 1
        (path,) = shell.folder.glob("longshore-report-*.txt")
        assert "longshore.toml cannot be read" in path.read_text(encoding="utf-8")

    def test_goes_to_standard_output_alone_where_asked(self, shell: Any) -> None:
        assert shell("doctor", "--report", "-", **NO_CHECK).stdout.startswith("Longshore report\n")

    def test_that_cannot_be_written_is_one_message(self, shell: Any) -> None:
        done = shell("doctor", "--report", str(Path("nowhere") / "out.txt"))
        assert done.returncode == 2
        assert "cannot be written to" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("2026-11-16T02:40:25+00:00 at 02:40:25", "2026-11-16T02:40:25+00:00 at 02:40:25"),
        ("pushed with ghp_abcdefghijklmnopqrstuvwxyz0123", "pushed with ***"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        ("sent bearer abcdefghijkl", "sent bearer ***"),
        ("postgresql://ann:geheim@db/x and http://bob:geheim@x/", "postgresql://ann:***@db/x and http://bob:***@x/"),
        ("a basic test", "a basic test"),
    ],
)
def test_secrets_are_concealed_and_the_rest_is_kept(text: str, left: str) -> None:
    assert concealed(text) == left


def test_a_known_secret_is_concealed_wherever_it_stands() -> None:
    assert concealed("x-geheim-1 and geheim", {"geheim", "geheim-1"}) == "x-*** and ***"
