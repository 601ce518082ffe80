"""A worker's process has no Rich, which it would never use, and whoever wants it can still have it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HANDLERS = """import sys
from longshore import handler

@handler("page")
async def page(job, kit):
    before = "rich" in sys.modules
    kit.log.info("seen")
    import rich.table
    return {"rich": before, "table": rich.table.Table.__name__}
"""


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def test_structlog_comes_alone_and_rich_can_come_later(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from longshore.observe.structlog_plain import import_structlog_alone\n"
        "import_structlog_alone()\n"
        "print('structlog' in sys.modules, 'rich' in sys.modules)\n"
        "import rich.console\n"
        "print(rich.console.Console.__name__)\n"
    )
    assert run(code, tmp_path).split() == ["True", "False", "Console"]


def test_where_rich_is_there_already_it_stays(tmp_path: Path) -> None:
    code = (
        "import sys, rich\n"
        "from longshore.observe.structlog_plain import import_structlog_alone\n"
        "import_structlog_alone()\n"
        "print(sys.modules['rich'] is rich, 'structlog' in sys.modules)\n"
    )
    assert run(code, tmp_path).split() == ["True", "False"]


def test_a_worker_has_no_rich_and_a_handler_may(tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text(HANDLERS)
    (tmp_path / "urls.txt").write_text("https://a.org/1\n")
    longshore = [sys.executable, "-m", "longshore"]
    for arguments in (
        ["submit", "page", "--urls-file", "urls.txt", "--run", "r"],
        ["work", "pages.py", "--run", "r", "--until-done"],
    ):
        subprocess.run([*longshore, *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=90)
    done = subprocess.run([*longshore, "jobs", "--json"], cwd=tmp_path, check=True, capture_output=True, text=True)
    [job] = json.loads(done.stdout)
    assert job["result"] == {"rich": False, "table": "Table"}


def test_the_process_that_imports_a_handler_file_for_the_checks_has_no_rich(tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text(f"import sys\nassert 'rich' not in sys.modules\n{HANDLERS}")
    loading = [sys.executable, "-m", "longshore.fleet.checks.load_handlers", "pages.py"]
    done = subprocess.run(loading, cwd=tmp_path, check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    assert (told["kinds"], told.get("fault", "")) == (["page"], "")
