"""The documentation as a site: every page, no dead link, and nothing that needs a network."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENDOR = ROOT / "docs" / "site" / "vendor"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site. A dead link, a dead anchor or a page in no menu ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_of_the_docs_is_there(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").glob("*.md")]
    assert [str(page) for page in pages if not (site / page).exists()] == []
    assert "A scraper in ten lines" in (site / "index.html").read_text()


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|iframe)[^>]* src=\"?https?:|<link[^>]* href=\"?https?:[^>]*stylesheet")
    assert [
        str(page) for page in site.rglob("*.html") if page.name != "404.html" and loaded.search(page.read_text())
    ] == []


def test_the_search_knows_words_of_the_pages(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    assert "kit.http" in index
    assert "Retry-After" in index


def test_the_script_of_others_is_unchanged_and_has_its_licence() -> None:
    rows = re.findall(
        r"^\| (\S+) \| .* \| .*, (\S+) \| ([0-9a-f]{64}) \|$", (VENDOR / "VENDORED.md").read_text(), re.MULTILINE
    )
    assert {name for name, _, _ in rows} == {path.name for path in VENDOR.glob("*.js")}
    for name, licence, digest in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
        assert (VENDOR / licence).read_text().strip()


def test_every_decision_is_listed() -> None:
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    pages = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
    assert [page for page in pages if f"({page})" not in listed] == []


def test_every_alert_has_its_entry_in_the_operations_guide() -> None:
    guide = (ROOT / "docs" / "operations.md").read_text()
    alerts = re.findall(r"- alert: (\w+)", (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    headings = {name for line in re.findall(r"^### (.*)$", guide, re.MULTILINE) for name in line.split(", ")}
    assert set(alerts) == headings
