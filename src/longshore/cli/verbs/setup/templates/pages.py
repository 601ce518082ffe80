"""The default template: one result for each page of a list."""

from __future__ import annotations

from longshore.cli.verbs.setup.templates.template import InitTemplate

_HANDLERS = '''"""The work on one page."""

from longshore import handler


@handler("page", timeout=30, retries=3)
async def page(url: str, kit):
    page = await kit.http.get(url)
    return {"title": page.text_of("title", ""), "bytes": len(page.body)}
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
    assert outcome == Completed({"title": "", "bytes": 12})


def test_a_server_error_is_tried_again():
    outcome = run_handler(page, {"url": URL}, http={URL: 503})
    assert isinstance(outcome, Failed)
    assert outcome.failure.retryable
'''

URLS = """# One URL a line. Blank lines and lines like this one are skipped.
https://example.org/
https://example.com/
"""

PAGES = InitTemplate(
    handlers=_HANDLERS,
    work="the work: one function for one page",
    test=_TEST,
    inputs={"urls.txt": URLS},
    input_words="what to work on",
    commands={"run handlers.py --urls-file urls.txt": "do the work; results in results.jsonl"},
    submit="submit page --urls-file urls.txt",
    about="`handlers.py` has the function that works on one page; `urls.txt` lists the pages.",
    more="""To work with a supervised fleet on this machine: `longshore submit page --urls-file urls.txt` and
`longshore fleet handlers.py`.""",
)
