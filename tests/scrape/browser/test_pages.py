"""The calls of a page, with both drivers, through the interface for plain handlers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scrape.browser.conftest import Site
from tests.waiting import wait_until

from longshore.errors import ConnectionFailedError, ProcessingError, ValidationError
from longshore.scrape.browser import SyncBrowsers
from longshore.scrape.http.response import StatusError


def test_a_page_is_read_as_its_scripts_made_it(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        opened = page.open(f"{site.url}/scripted")
        assert (opened.url, opened.status) == (f"{site.url}/scripted", 200)
        assert '<b class="made">made here</b>' in page.html()


def test_what_comes_later_can_be_waited_for(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        page.open(f"{site.url}/later")
        page.wait_for("#late")
        assert "late</i>" in page.html()


def test_a_screenshot_is_a_png(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        page.open(f"{site.url}/plain")
        assert page.screenshot().startswith(b"\x89PNG")


def test_a_redirect_ends_where_it_leads(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        assert page.open(f"{site.url}/moved").url == f"{site.url}/plain" == page.url()


def test_an_error_status_is_an_error_unless_it_is_asked_for(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        with pytest.raises(StatusError, match="answered 503 Service Unavailable") as caught:
            page.open(f"{site.url}/busy")
        assert caught.value.retryable
        assert page.open(f"{site.url}/busy", check=False).status == 503
        assert "not now" in page.html()


def test_a_site_that_does_not_answer_is_named(browsers: SyncBrowsers) -> None:
    with browsers.page() as page, pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1.*REFUSED") as caught:
        page.open("http://127.0.0.1:39999/")
    assert caught.value.retryable


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hostname",
        " FILE:///etc/hostname",
        "fi\tle:///etc/hostname",
        "view-source:file:///",
        "chrome://version/",
        "devtools://devtools/bundled/inspector.html",
        "data:text/html,<script>1</script>",
        "javascript:alert(1)",
    ],
)
def test_files_of_this_machine_are_not_opened(browsers: SyncBrowsers, url: str) -> None:
    with browsers.page() as page, pytest.raises(ValidationError, match="can be opened"):
        page.open(url)


def test_what_is_no_url_is_never_tried_again(browsers: SyncBrowsers) -> None:
    with browsers.page() as page, pytest.raises(ValidationError, match="is not a URL that can be opened"):
        page.open("no url at all")


def test_a_file_to_download_is_not_taken_for_the_page_before(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        page.open(f"{site.url}/plain")
        with pytest.raises(ProcessingError, match=r"Fetch it with `kit\.http\.get`") as caught:
            page.open(f"{site.url}/file")
    assert not caught.value.retryable


def test_a_place_on_the_same_page_is_no_download(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        page.open(f"{site.url}/plain")
        assert page.open(f"{site.url}/plain#below").status == 200


def test_an_alert_holds_up_nothing(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        page.open(f"{site.url}/alert")
        assert "after the alert" in page.html()


def test_a_popup_is_not_left_behind(browsers: SyncBrowsers, site: Site, kind: str) -> None:
    def windows(native: Any) -> int:
        return len(native.context.pages if kind == "playwright" else native.window_handles)

    for _ in range(2):
        with browsers.page() as page:
            page.open(f"{site.url}/popup")
    with browsers.page() as page:
        page.open(f"{site.url}/plain")
        # Tabs are closed in the background, which takes a busy machine a while; the previous one may still exist.
        wait_until(lambda: page.do(windows) <= 2)


def test_the_drivers_own_page_is_at_hand(browsers: SyncBrowsers, site: Site, kind: str) -> None:
    with browsers.page() as page:
        page.open(f"{site.url}/plain")
        assert page.do(lambda native: native.title() if kind == "playwright" else native.title) == "Plain"


def test_the_window_is_that_of_a_desk_and_not_of_a_telephone(browsers: SyncBrowsers, site: Site, kind: str) -> None:
    def width(native: Any) -> Any:
        script = "window.innerWidth"
        return native.evaluate(script) if kind == "playwright" else native.execute_script(f"return {script}")

    with browsers.page() as page:
        page.open(f"{site.url}/plain")
        assert page.do(width) >= 1024


def test_an_error_of_ones_own_passes_through_and_the_page_serves_on(browsers: SyncBrowsers, site: Site) -> None:
    with pytest.raises(KeyError, match="mine"), browsers.page() as page:
        raise KeyError("mine")
    with browsers.page() as page:
        assert page.open(f"{site.url}/plain").status == 200


def test_cookies_stay_from_page_to_page_but_a_fresh_page_has_none(browsers: SyncBrowsers, site: Site) -> None:
    with browsers.page() as page:
        page.open(f"{site.url}/cookie")
    with browsers.page() as page:
        page.open(f"{site.url}/cookie")
        assert "had one" in page.html()
    with browsers.fresh_page() as page:
        page.open(f"{site.url}/cookie")
        assert "had none" in page.html()
