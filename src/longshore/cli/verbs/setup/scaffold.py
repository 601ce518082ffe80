"""The files that `longshore init` makes."""

from __future__ import annotations

from longshore.cli.reference_pages import dotenv_example
from longshore.settings.table import DEFAULT_QUEUE

_HANDLERS = '''"""The work on one page."""

import re

from longshore import handler


@handler("page", timeout=30, retries=3)
async def page(job, kit):
    response = await kit.http.get(job.payload["url"])
    title = re.search(r"<title>([^<]*)</title>", response.text, re.IGNORECASE)
    return {"title": title[1].strip() if title else None, "bytes": len(response.body)}
'''

_TEST = '''"""Handlers are tested without a queue, a worker or a network."""

from longshore.testing import Completed, Failed, run_handler

from handlers import page

URL = "https://example.org/"


def test_the_title_is_found():
    outcome = run_handler(page, {"url": URL}, http={URL: "<title> Hello </title>"})
    assert outcome == Completed({"title": "Hello", "bytes": 22})


def test_a_page_without_a_title_is_no_failure():
    outcome = run_handler(page, {"url": URL}, http={URL: "nothing here"})
    assert outcome == Completed({"title": None, "bytes": 12})


def test_a_server_error_is_tried_again():
    outcome = run_handler(page, {"url": URL}, http={URL: 503})
    assert isinstance(outcome, Failed)
    assert outcome.failure.retryable
'''

_PYTEST = """[pytest]
# run_handler runs async handlers by itself. Take this away to write async tests with pytest-asyncio.
addopts = -p no:asyncio
"""

_URLS = """# One URL a line. Blank lines and lines like this one are skipped.
https://example.org/
https://example.com/
"""

_DOTENV = f"""# The settings of this machine; .env.example lists all.
LONGSHORE_QUEUE={DEFAULT_QUEUE}
"""

_GITIGNORE = """.env
.longshore/
results*.jsonl
__pycache__/
.pytest_cache/
"""

_README = """# A Longshore project

`handlers.py` has the function that works on one page; `urls.txt` lists the pages.

    python -m pip install pytest                          once, for the next line
    python -m pytest                                      test the handler
    longshore run handlers.py --urls-file urls.txt        do the work; results in results.jsonl
    longshore status                                      how far each run is
    longshore jobs --state failed                         what failed, and why

If `longshore` is not on the path, `python -m longshore` is the same.

To work with a supervised fleet on this machine: `longshore submit page --urls-file urls.txt` and
`longshore fleet handlers.py`.

To work on several machines, let them share a queue: set LONGSHORE_QUEUE in `.env` on each. Then

    longshore submit page --urls-file urls.txt            once
    longshore work handlers.py                            on every machine, as often as you like
"""


def files() -> dict[str, str]:
    """Return every file by its name."""
    return {
        "handlers.py": _HANDLERS,
        "test_handlers.py": _TEST,
        "pytest.ini": _PYTEST,
        "urls.txt": _URLS,
        ".env": _DOTENV,
        ".env.example": dotenv_example(),
        ".gitignore": _GITIGNORE,
        "README.md": _README,
    }
