"""The template of a shop, a catalogue or a register: lists that lead to items."""

from __future__ import annotations

from longshore.cli.verbs.setup.templates.template import InitTemplate

_HANDLERS = '''"""Lists lead to items, and to the next list; each item becomes a row of the table."""

from longshore import handler


@handler("list", timeout=60, retries=3)
async def listing(url: str, kit):
    page = await kit.http.get(url)
    return page.follow("a.item", "item") + page.follow("a[rel=next]", "list")


@handler("item", timeout=60, retries=3)
async def item(url: str, kit):
    page = await kit.http.get(url)
    kit.emit({"title": page.text_of("h1"), "price": page.text_of(".price", ""), "url": page.url}, kind="item")
'''

_TEST = '''"""Handlers are tested without a queue, a worker or a network."""

from longshore.testing import Failed, run_handler

from handlers import item, listing

LIST = "https://example.org/list"
ITEM = "https://example.org/1"


def test_a_list_leads_to_its_items_and_to_the_next_list():
    html = "<a class=item href=/1>Cups</a> <a href=/help>Help</a> <a rel=next href=/list?page=2>More</a>"
    outcome = run_handler(listing, {"url": LIST}, http={LIST: html})
    assert [(job.kind, job.payload["url"]) for job in outcome.jobs] == [
        ("item", ITEM),
        ("list", "https://example.org/list?page=2"),
    ]


def test_an_item_becomes_a_row():
    outcome = run_handler(item, {"url": ITEM}, http={ITEM: "<h1>Cups</h1> <b class=price>7.50</b>"})
    assert outcome.records == [{"title": "Cups", "price": "7.50", "url": ITEM}]


def test_an_item_without_a_title_fails_because_the_layout_may_have_changed():
    outcome = run_handler(item, {"url": ITEM}, http={ITEM: "<h2>Cups</h2>"})
    assert isinstance(outcome, Failed)
    assert "h1" in outcome.failure.message
'''

ITEMS = InitTemplate(
    handlers=_HANDLERS,
    work="the work on a list, and on an item",
    test=_TEST,
    inputs={"urls.txt": "# The first page of each list, one URL a line.\nhttps://example.org/\n"},
    input_words="the first page of each list",
    commands={
        "run handlers.py --kind list --urls-file urls.txt --items items.csv --bare": "do the work; items in items.csv"
    },
    submit="submit list --urls-file urls.txt",
    about="""`handlers.py` has a function for lists, which returns the links to items and to the next list, and
one for items. `urls.txt` names the first page of each list.""",
    more="""Correct the selectors first: `longshore fetch URL --css "a.item"` prints the elements that match,
and `longshore shell URL` opens a Python prompt with `page`. `--items items.parquet`, `.jsonl` and
`.sqlite` are other formats. If the layout of the site changes, `page.text_of("h1")` fails the job
with a message; `longshore replay` runs it again offline.""",
)
