"""The template of a crawl: pages that lead to pages."""

from __future__ import annotations

from longshore.cli.verbs.setup.templates.template import InitTemplate

_HANDLERS = '''"""A crawl: keep a record of every page, and follow its links to pages of the same site."""

from longshore import handler


@handler("page", timeout=60, retries=3)
async def page(url: str, kit):
    page = await kit.http.get(url)
    kit.emit({"url": page.url, "title": page.text_of("title", ""), "words": len(page.text.split())}, kind="page")
    return page.follow()
'''

_TEST = '''"""Handlers are tested without a queue, a worker or a network."""

from longshore.testing import run_handler

from handlers import page

URL = "https://example.org/"
SITE = {URL: "<title>Home</title> <a href=/about>About</a> <a href=https://elsewhere.example/>Not here</a>"}


def test_a_page_is_kept_with_its_title():
    [record] = run_handler(page, {"url": URL}, http=SITE).records_of("page")
    assert (record["url"], record["title"]) == (URL, "Home")


def test_links_of_the_same_site_are_followed():
    outcome = run_handler(page, {"url": URL}, http=SITE)
    assert [job.payload["url"] for job in outcome.jobs] == ["https://example.org/about"]
'''

CRAWL = InitTemplate(
    handlers=_HANDLERS,
    work="the work on a page, and which links are followed",
    test=_TEST,
    inputs={"urls.txt": "# The pages to begin with, one URL a line.\nhttps://example.org/\n"},
    input_words="the pages to begin with",
    commands={
        "run handlers.py --urls-file urls.txt --items pages.csv --bare --max-jobs 1000": "crawl; pages in pages.csv"
    },
    submit="submit page --urls-file urls.txt --max-jobs 1000",
    about="""`handlers.py` has the function that works on one page and returns the links to follow; `urls.txt`
lists the pages to begin with.""",
    more="""Try it on one page first: `longshore shell https://example.org/` opens a Python prompt with `page`.
To choose the links, say which: `page.follow("main a", allow="/docs/", deny="[?]print=")`. Each URL
is fetched once in a run. The limit `--max-jobs` ends a crawl that grows without bound; `--max-depth
3` goes three links deep. If the crawl is stopped or killed, the same command continues it.""",
)
