"""The static files: those of others are what we say they are, small, and part of the package."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.server.page.conftest import Visitor

from longshore.server.pages.assets import ASSETS, FOLDER

ROOT = Path(__file__).parents[3]
VENDOR = FOLDER / "vendor"
AXE = Path(__file__).parent / "axe"
AXE_SHA256 = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"


def test_the_files_of_others_are_unchanged_and_have_their_licences() -> None:
    rows = re.findall(
        r"^\| (\S+) \| .* \| .*, (\S+) \| ([0-9a-f]{64}) \|$", (VENDOR / "VENDORED.md").read_text(), re.MULTILINE
    )
    assert {name for name, _, _ in rows} == {path.name for path in VENDOR.iterdir() if path.suffix in {".js", ".css"}}
    for name, licence, digest in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
        assert (VENDOR / licence).read_text().strip()
    assert hashlib.sha256((AXE / "axe.min.js").read_bytes()).hexdigest() == AXE_SHA256
    assert "Mozilla Public License" in (AXE / "axe.LICENSE").read_text()


def test_all_scripts_of_others_are_about_forty_kilobytes_compressed() -> None:
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in VENDOR.glob("*.js")) < 41_000


def test_a_built_package_has_the_templates_and_static_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if "server/pages" in name}
    pages = ROOT / "src" / "longshore" / "server" / "pages"
    wanted = {f"longshore/server/pages/{path.relative_to(pages).as_posix()}" for path in pages.rglob("*.html")}
    wanted |= {
        f"longshore/server/pages/{path.relative_to(pages).as_posix()}" for path in FOLDER.rglob("*") if path.is_file()
    }
    assert len(wanted) > 20
    assert wanted <= packed


async def test_static_files_need_no_key_and_are_kept_for_ever(visitor: Visitor) -> None:
    answer = await visitor.get(ASSETS.address("page.css"))
    assert answer.status == 200
    assert "immutable" in answer.headers["Cache-Control"]
    for path in ("/static/0/page.css", "/static/../page.css", "/static/x/..%2f..%2fassets.py", "/static/x/assets.py"):
        assert (await visitor.get(path)).status in {303, 404}
