"""`longshore replay`: a failure that was kept, run again without a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.kept_run import BROKEN, FIXED, run_broken
from tests.services.chromium import need_chromium

from longshore.cli import main
from longshore.errors import ConnectionFailedError, Failure, TimedOutError
from longshore.extensions.traces import ExchangeKind
from longshore.job import Job
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.failure_bundles import FailureBundles
from longshore.scrape.capture.failure_signature import FailureSignature
from longshore.scrape.capture.trail import Trail

HANDLER = """from longshore import handler

@handler("page")
{async_}def page(job, kit):
    response = {await_}kit.http.get(job.payload["url"])
    print("this is printed")
    return {body}
"""


def written(here: Path, body: str, *, plain: bool = False) -> str:
    text = HANDLER.format(async_="" if plain else "async ", await_="" if plain else "await ", body=body)
    (here / "handlers.py").write_text(text)
    return "handlers.py"


def kept(here: Path, failure: Failure, *exchanges: Exchange, **payload: object) -> str:
    trail = Trail()
    for exchange in exchanges:
        trail.watch(exchange)
    job = Job(id="1", run="r", kind="page", key="k", payload={"url": "https://a.org/1", **payload}, epoch=1)
    signature = FailureSignature(failure.exception or failure.error_type, "handlers.py", "page", 6)
    path = FailureBundles(here / "bundles").keep(job, failure, signature, trail)
    assert path is not None
    return str(path.relative_to(here))


PAGE = Exchange(url="https://a.org/1", status=200, body=b"page")
KEY_ERROR = Failure("unknown", "'title'", "KeyError")


@pytest.mark.ledger("F5")
@pytest.mark.parametrize("plain", [False, True])
def test_a_failure_that_is_still_there_is_reproduced(
    here: Path, capsys: pytest.CaptureFixture[str], plain: bool
) -> None:
    file = written(here, '{}["title"]', plain=plain)
    assert main(["replay", kept(here, KEY_ERROR, PAGE), file]) == 1
    out, err = capsys.readouterr()
    assert "then    KeyError: 'title' (handlers.py:6 in page)" in out
    assert "now     KeyError: 'title' (handlers.py:7 in page)" in out
    assert "The failure is reproduced." in out
    assert "this is printed" in err


@pytest.mark.parametrize("plain", [False, True])
def test_a_failure_that_is_mended_passes(here: Path, says: Callable[..., str], plain: bool) -> None:
    out = says("replay", kept(here, KEY_ERROR, PAGE), written(here, "response.text", plain=plain))
    assert "now     completed" in out
    assert "It passes now." in out


def test_another_failure_is_told_from_the_one_that_was_kept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", kept(here, KEY_ERROR, PAGE), written(here, "1 / 0")]) == 1
    assert "It still fails, but differently." in capsys.readouterr().out


def test_a_request_that_was_not_made_then_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(here, '(await kit.http.get("https://a.org/2")).text')
    assert main(["replay", kept(here, KEY_ERROR, PAGE), file]) == 1
    assert "GET https://a.org/2 is not among the pages kept of bundle r-KeyError-page-" in capsys.readouterr().out


@pytest.mark.parametrize("tool", ["tor", "proxies"])
def test_a_tool_that_needs_a_network_is_refused(here: Path, capsys: pytest.CaptureFixture[str], tool: str) -> None:
    assert main(["replay", kept(here, KEY_ERROR, PAGE), written(here, f"kit.{tool}.anything")]) == 1
    assert f"kit.{tool} needs a network" in capsys.readouterr().out


@pytest.mark.parametrize("error", [TimedOutError("no answer"), ConnectionFailedError("refused")])
def test_a_site_that_did_not_answer_does_not_answer_again(
    here: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    failure = Failure.of(error)
    bundle = kept(here, failure, Exchange(url="https://a.org/1", error=str(error)))
    assert main(["replay", bundle, written(here, "None")]) == 1
    assert "The failure is reproduced." in capsys.readouterr().out


def test_records_are_checked_and_filtered_as_ever(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "handlers.py").write_text(
        "from pydantic import BaseModel\nfrom longshore import handler\n\n"
        "class Item(BaseModel):\n    n: int\n\n"
        '@handler("page", emits={"item": Item}, keep=lambda item, kind: item.n != 2)\n'
        "def page(job, kit):\n"
        '    for n in job.payload["numbers"]:\n        kit.emit({"n": n}, "item")\n'
    )
    assert main(["replay", kept(here, KEY_ERROR, PAGE, numbers=[1, 2, 3]), "handlers.py"]) == 0
    assert "completed, with 2 records" in capsys.readouterr().out
    (bundle,) = (here / "bundles").iterdir()
    bundle.rename(here / "before")
    assert main(["replay", kept(here, KEY_ERROR, PAGE, numbers=["one"]), "handlers.py"]) == 1
    assert "A record of kind 'item' does not match Item: n: input should be a valid integer" in capsys.readouterr().out


def test_who_is_given_a_mask_for_a_secret_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(here, KEY_ERROR, PAGE, token="geheim")
    assert main(["replay", bundle, written(here, '{}["title"]')]) == 1
    out = capsys.readouterr().out
    assert "Secrets in the job's payload are masked" in out
    assert "geheim" not in out


def test_programs_get_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", kept(here, KEY_ERROR, PAGE), written(here, '{}["title"]'), "--json"]) == 1
    whole = json.loads(capsys.readouterr().out)
    assert (whole["passes"], whole["reproduced"]) == (False, True)
    assert whole["now"]["failure"]["message"] == "'title'"


def test_what_is_no_bundle_is_refused(here: Path, refused: Callable[..., str]) -> None:
    assert "bundles/none is no failure bundle" in refused("replay", "bundles/none", written(here, "None"))


def test_a_file_without_a_handler_for_it_is_refused(here: Path, refused: Callable[..., str]) -> None:
    (here / "other.py").write_text(HANDLER.replace('"page"', '"other"', 1).format(async_="", await_="", body="None"))
    assert "other.py has no handler for 'page'" in refused("replay", kept(here, KEY_ERROR, PAGE), "other.py")


def test_a_handler_that_broke_on_a_site_breaks_again_without_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F5: of ten failures one is kept; it is reproduced with the site gone, and passes when the handler is mended."""
    site = run_broken(here, 30)
    assert site.asked == 30
    (bundle,) = (here / ".longshore" / "bundles").iterdir()
    (here / "pages.py").write_text(BROKEN)
    assert main(["replay", str(bundle), "pages.py"]) == 1
    out = capsys.readouterr().out
    assert "ValueError: invalid literal for int() with base 10: 'x' (pages.py:4 in parse)" in out
    assert "The failure is reproduced." in out
    (here / "pages.py").write_text(FIXED)
    assert main(["replay", str(bundle), "pages.py"]) == 0
    assert "completed, with 2 records" in capsys.readouterr().out
    assert site.asked == 30


@pytest.mark.parametrize("driver", ["playwright", "selenium"])
def test_a_page_of_a_browser_is_opened_again(
    here: Path, says: Callable[..., str], monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    need_chromium()
    monkeypatch.setenv("LONGSHORE_BROWSER", driver)
    url, html = "https://a.org/1", b"<script>document.write('<b class=made>by its script</b>')</script>"
    opened = Exchange(kind=ExchangeKind.OPENED, url=url, final_url=url, status=200)
    loaded = Exchange(kind=ExchangeKind.LOADED, url=url, status=200, headers={"Content-Type": "text/html"}, body=html)
    (here / "handlers.py").write_text(
        "from longshore import handler\n\n"
        '@handler("page")\n'
        "def page(job, kit):\n"
        "    with kit.browser.page() as page:\n"
        '        page.open(job.payload["url"])\n'
        '        page.wait_for(".made")\n'
    )
    assert "It passes now." in says("replay", kept(here, KEY_ERROR, opened, loaded), "handlers.py")
