"""The pages that a site lists in sitemaps and feeds."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.errors import InputFileError, UsageError
from longshore.runs.sources import Sitemap
from longshore.scrape.http.response import Response


class _Site(http.server.BaseHTTPRequestHandler):
    files: dict[str, bytes]

    def do_GET(self) -> None:
        body = self.files.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    _Site.files = {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def listed(url: str, since: str | None = None) -> list[dict[str, object]]:
    """Return the payloads; the site itself is written as https://a.org in files and in them."""
    site = url.partition("/map")[0] if "/map" in url else "/".join(url.split("/")[:3])
    _Site.files = {name: body.replace(b"https://a.org", site.encode()) for name, body in _Site.files.items()}
    pages = [entry.payload for entry in Sitemap(url, since=since).entries()]
    return [{**page, "url": str(page["url"]).replace(site, "https://a.org")} for page in pages]


def sitemap(*urls: str) -> bytes:
    pages = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{pages}</urlset>'.encode()


def test_pages_of_a_sitemap_are_jobs_with_their_last_change(site: str) -> None:
    _Site.files["/map.xml"] = b"""<urlset><url>
      <loc> https://a.org/1?a=1&amp;b=2 </loc><lastmod>2026-03-01</lastmod></url>
      <url><loc><![CDATA[https://a.org/2]]></loc><image:image><image:loc>https://a.org/x.jpg</image:loc></image:image></url>
      <url><loc>/relative</loc></url><url></url><url><loc>no url at all:</loc></url></urlset>"""
    assert listed(f"{site}/map.xml") == [
        {"url": "https://a.org/1?a=1&b=2", "lastmod": "2026-03-01"},
        {"url": "https://a.org/2"},
        {"url": "https://a.org/relative"},
        {"url": "https://a.org/no url at all:"},
    ]


def test_an_index_leads_to_its_sitemaps_also_to_compressed_ones(site: str) -> None:
    _Site.files["/index.xml"] = (
        f"<sitemapindex><sitemap><loc>{site}/a.xml.gz</loc></sitemap><sitemap><loc>{site}/b.xml</loc></sitemap>"
        f"<sitemap><loc>{site}/index.xml</loc></sitemap></sitemapindex>"
    ).encode()
    _Site.files["/a.xml.gz"] = gzip.compress(sitemap(f"{site}/1"))
    _Site.files["/b.xml"] = sitemap("https://a.org/2")
    assert [page["url"] for page in listed(f"{site}/index.xml")] == ["https://a.org/1", "https://a.org/2"]


def test_the_sitemaps_of_a_site_are_those_of_its_robots_txt(site: str) -> None:
    _Site.files["/robots.txt"] = f"User-agent: *\nSitemap: {site}/one.xml\nsitemap:/two.xml\n".encode()
    _Site.files["/one.xml"] = sitemap("https://a.org/1")
    _Site.files["/two.xml"] = sitemap("https://a.org/2")
    _Site.files["/sitemap.xml"] = sitemap("https://a.org/3")
    assert [page["url"] for page in listed(site)] == ["https://a.org/1", "https://a.org/2"]
    del _Site.files["/robots.txt"]
    assert [page["url"] for page in listed(f"{site}/")] == ["https://a.org/3"]


def test_feeds_are_lists_of_pages(site: str) -> None:
    _Site.files["/rss"] = b"""<rss><channel><link>https://a.org/</link><item><title>x</title>
      <link>https://a.org/news/1</link><pubDate>Sun, 01 Mar 2026 10:00:00 GMT</pubDate></item></channel></rss>"""
    _Site.files["/atom"] = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://a.org/"/><entry>
      <link rel="self" href="https://a.org/api/1"/><link rel='alternate' href='https://a.org/news/2'/>
      <updated>2026-03-02T00:00:00Z</updated></entry></feed>"""
    assert listed(f"{site}/rss") == [{"url": "https://a.org/news/1", "lastmod": "Sun, 01 Mar 2026 10:00:00 GMT"}]
    assert listed(f"{site}/atom") == [{"url": "https://a.org/news/2", "lastmod": "2026-03-02T00:00:00Z"}]


def test_only_pages_that_changed_since_a_day(site: str) -> None:
    _Site.files["/map.xml"] = b"""<urlset><url><loc>https://a.org/old</loc><lastmod>2026-01-30</lastmod></url>
      <url><loc>https://a.org/new</loc><lastmod>2026-01-31T12:00:00+02:00</lastmod></url>
      <url><loc>https://a.org/unknown</loc><lastmod>yesterday</lastmod></url></urlset>"""
    found = [page["url"] for page in listed(f"{site}/map.xml", since="2026-01-31")]
    assert found == ["https://a.org/new", "https://a.org/unknown"]


def test_pages_of_other_sites_are_left_out_and_counted(site: str) -> None:
    port = site.rpartition(":")[2]
    others = ["https://a.org/", "http://127.0.0.1:9200/", f"http://127.0.0.2:{port}/", "http://169.254.169.254/"]
    _Site.files["/map.xml"] = sitemap(f"{site}/1", *others)
    source = Sitemap(f"{site}/map.xml")
    assert [entry.payload["url"] for entry in source.entries()] == [f"{site}/1"]
    assert source.left_out == len(others)


def test_a_sitemap_names_no_host_of_its_site_on_a_private_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that are submitted may reach private addresses, and here a page chose the host."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    addresses = {"intranet.shop.test": "10.0.0.7", "blog.shop.test": "93.184.216.34"}
    asked: list[str] = []

    def resolved(host: str, port: None) -> list[tuple[object, ...]]:
        asked.append(host)
        if host not in addresses:
            raise OSError("no such name")
        return [(2, 1, 6, "", (addresses[host], 0))]

    monkeypatch.setattr("longshore.runs.sources.sitemap.socket.getaddrinfo", resolved)
    names = ["www.shop.test", "blog.shop.test", "intranet.shop.test", "intranet.shop.test", "gone.shop.test"]
    page = Response(url="https://www.shop.test/map.xml", body=sitemap(*(f"https://{name}/" for name in names)))
    monkeypatch.setattr("longshore.runs.sources.sitemap._fetched", lambda fetch, url: page)
    source = Sitemap(page.url)
    found = [str(entry.payload["url"]) for entry in source.entries()]
    assert found == ["https://www.shop.test/", "https://blog.shop.test/", "https://gone.shop.test/"]
    assert source.left_out == 2
    assert asked.count("intranet.shop.test") == 1
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert Sitemap("https://www.shop.test/map.xml")._is_public("a.shop.test")
    assert "a.shop.test" not in asked


def test_a_long_date_is_not_stored_with_every_job(site: str) -> None:
    _Site.files["/map.xml"] = b"<url><loc>https://a.org/1</loc><lastmod>" + b"2" * 1_000_000 + b"</lastmod></url>"
    assert listed(f"{site}/map.xml") == [{"url": "https://a.org/1"}]


def test_a_text_file_of_urls_is_a_sitemap(site: str) -> None:
    _Site.files["/map.txt"] = b"https://a.org/1\nhttps://a.org/2\n"
    assert [page["url"] for page in listed(f"{site}/map.txt")] == ["https://a.org/1", "https://a.org/2"]


@pytest.mark.parametrize(
    "text", ["<url>", "<url", "</url>", "<url><loc>", "<loc ", "<url><link ", "<url><lastmod>  ", "<a:", "<![CDATA["]
)
def test_a_hostile_sitemap_is_read_in_linear_time(site: str, text: str) -> None:
    """A quadratic expression would take hours here."""
    _Site.files["/map.xml"] = b"<x>" + text.encode() * 1_000_000
    assert listed(f"{site}/map.xml") == []


def test_what_cannot_be_read_is_named(site: str) -> None:
    with pytest.raises(InputFileError, match=r"/none\.xml cannot be read: .*404 Not Found"):
        listed(f"{site}/none.xml")
    _Site.files["/map.xml"] = b"\x1f\x8bdamaged"
    with pytest.raises(InputFileError, match=r"/map\.xml is damaged"):
        listed(f"{site}/map.xml")
    with pytest.raises(InputFileError, match="lists no pages"):
        Sitemap(f"{site}/map.xml").refuse_empty()


@pytest.mark.parametrize("url", ["a.org", "ftp://a.org/sitemap.xml"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=url):
        Sitemap(url)


def test_a_wrong_day_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'soon' is no day\. Write it as 2026-01-31"):
        Sitemap("https://a.org/", since="soon")
