"""The README and the manual of the recipe `competitions` say what is true, and its pages are read without surprises."""

from __future__ import annotations

import importlib
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.docs.test_docs_run import blocks, commands
from tests.kit.task_server import clean_environment
from tests.recipes.competitions_scene import RECIPES
from tests.services.chromium import need_chromium

from longshore.observe.logs import _EMOJI, _LEVEL_EMOJI

RECIPE = RECIPES / "competitions"
sys.path.append(str(RECIPES))
data, pages, replica_pages = (
    importlib.import_module(f"competitions.{name}") for name in ("replica_data", "pages", "replica_pages")
)


@pytest.mark.ledger("A19")
def test_the_commands_of_the_readme_work_in_a_copy(tmp_path: Path) -> None:
    need_chromium()
    environment = clean_environment() | {"XDG_CACHE_HOME": str(tmp_path / ".cache"), "COMPETITIONS_PATIENCE": "0.2"}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}", "LONGSHORE_HOST_FIRST_RATE": "15"}
    subprocess.run(["longshore", "recipes", "copy", "competitions", "."], cwd=tmp_path, env=environment, check=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    started: list[subprocess.Popen[str]] = []
    ran = 0
    try:
        for block in blocks(tmp_path / "competitions" / "README.md"):
            if name := block.option("file"):
                (tmp_path / name).write_text(block.body)
            if block.language != "sh":
                continue
            for command in commands(block.body.replace("8002", port)):
                if "background" in block.options:
                    process = subprocess.Popen(
                        ["bash", "-c", f"exec {command}"],
                        cwd=tmp_path,
                        env=environment,
                        stdout=subprocess.PIPE,
                        text=True,
                    )
                    started.append(process)
                    assert process.stdout is not None
                    assert port in process.stdout.readline()
                    continue
                done = subprocess.run(
                    ["bash", "-c", command],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=300,
                    check=False,
                    stdin=subprocess.DEVNULL,
                )
                assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
                ran += 1
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert ran >= 8
    assert (tmp_path / "results" / "competitions.jsonl").read_text().count("\n") == 11


@pytest.mark.ledger("A12")
def test_the_manual_explains_every_line_that_a_worker_may_show() -> None:
    rows = re.findall(r"^\| (\S+) \| `(.+?)` \|", (RECIPE / "MANUAL.md").read_text(), re.MULTILINE)
    explained = [(line.partition("…")[0].strip(), sign) for sign, line in rows]
    # Warnings have the sign of warnings, whatever they say.
    warnings = dict.fromkeys(("Queue unavailable", "lost lease", "Failed work"), _LEVEL_EMOJI["warning"])
    for phrase, sign in (_EMOJI | warnings).items():
        assert any(said.startswith(phrase) and shown == sign for said, shown in explained), phrase
    sources = "".join(path.read_text() for path in RECIPE.glob("*.py"))
    own = dict(re.findall(r'log\.info\(f?"([A-Z]\w+ ?\w*).*?pictogram="(.)"', sources))
    assert len(own) >= 6
    for phrase, sign in own.items():
        assert any(said.startswith(phrase.split()[0]) and shown == sign for said, shown in explained), phrase


def test_the_pictures_of_the_pages_exist_and_load_nothing_from_the_web() -> None:
    named = {
        name
        for page in ("README.md", "MANUAL.md")
        for name in re.findall(r"\]\((images/\S+)\)", (RECIPE / page).read_text())
    }
    assert {f"images/{each.name}" for each in (RECIPE / "images").iterdir()} == named
    for name in named:
        picture = (RECIPE / name).read_text()
        assert "@import" not in picture
        assert "url(http" not in picture


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("S\xc3\xa3o Jo\xc3\xa3o", "São João"),
        ("King\xe2€™s Lynn", "King’s Lynn"),
        ("São João and Köln", "São João and Köln"),
        ("CAFÉ” São João Köln", "CAFÉ” São João Köln"),
        ("plain", "plain"),
    ],
)
def test_text_in_a_wrong_encoding_is_read_as_it_was_meant(read: str, meant: str) -> None:
    assert pages.ungarbled(read) == meant


@given(some.text())
def test_every_text_that_a_browser_garbled_is_restored(text: str) -> None:
    # Browsers take Latin-1 for windows-1252, and the bytes that this does not have for control characters.
    garbled = "".join(bytes([each]).decode("windows-1252", "ignore") or chr(each) for each in text.encode())
    assert pages.ungarbled(garbled) == text


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(some.integers(0, 10), some.integers(0, 4000), some.integers(0, 300), some.text(max_size=50))
def test_a_damaged_page_is_read_or_refused_and_nothing_else(number: int, at: int, gone: int, added: str) -> None:
    competition = data.competitions(11)[number]
    written = replica_pages.season_page(competition, competition.seasons[0], 1)
    html = written.body.decode("utf-8", "replace")
    damaged = html[:at] + added + html[at + gone :]
    try:
        found = pages.read_season(damaged, "https://site.example/a", "2024/25")
        pages.read_competition(damaged, "https://site.example/a")
        pages.read_front(damaged, "https://site.example/a")
    except pages.PageRefusedError:
        return
    assert all(isinstance(club, pages.ClubRecord) for club in found.clubs)


@pytest.mark.parametrize("href", ["http://[", "//[::1", ""])
def test_a_link_that_is_no_address_is_left_out(href: str) -> None:
    html = f'<ul id="seasons"><a class="season" href="{href}">x</a></ul><footer id="end"></footer>'
    assert pages.read_competition(html, "https://site.example/a") == ()
