"""The pages that a site lists: sitemaps (also indexes, compressed ones, those of robots.txt), RSS and Atom feeds."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NoReturn
from urllib.parse import urljoin, urlsplit
from xml.sax.saxutils import unescape

from longshore.errors import InputFileError, UsageError, WorkerError
from longshore.runs.submit.input_files import InputEntry, check_url
from longshore.scrape.http.address_policy import AddressPolicy, PrivateAddressError
from longshore.scrape.http.public_suffixes import same_site
from longshore.scrape.http.response import Response
from longshore.scrape.proxies.environment import EnvironmentProxies
from longshore.settings import Settings, resolve
from longshore.url import host_of, mask_url
from longshore.worker.kit.config import comma_separated

Fetch = Callable[[str], Response]
"""Returns the page of a URL, or raises an error of the kit."""

MOST_BYTES = 200 * 1024 * 1024
"""Of one sitemap, unpacked. The protocol allows 50 MB."""
MOST_FILES = 50_000
"""Sitemaps of one index, and of the indexes in it. The protocol allows 50,000 in one index."""

_LONGEST_DATE = 100
"""Characters. It is stored with every job."""

# Read by their tags alone: sitemaps are long, and many are not well-formed. Each expression takes linear time.
_ENTRY = re.compile(r"<(/?)(?:\w+:)?(url|sitemap|item|entry)\b[^<>]*>", re.IGNORECASE)
_LOC = re.compile(r"<(?:\w+:)?(?:loc|link)\b[^<>]*>([^<]+)<", re.IGNORECASE)
_LINK = re.compile(r"<(?:\w+:)?link\s([^<>]*)>", re.IGNORECASE)
_HREF = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_REL = re.compile(r"""\brel\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_LASTMOD = re.compile(r"<(?:\w+:)?(?:lastmod|updated|published|pubDate)\b[^<>]*>([^<]+)<", re.IGNORECASE)
_IN_ROBOTS = re.compile(r"(?im)^[ \t]*sitemap[ \t]*:[ \t]*(\S+)")


class Sitemap:
    """The pages of a sitemap, an index of sitemaps, a feed, or, for the URL of a site, of all sitemaps it names.

    A payload has `url` and, if the site says it, `lastmod`.
    """

    rereadable = False

    def __init__(self, url: str, *, since: str | None = None, settings: Settings | None = None) -> None:
        """Read `url`, fetched as the settings say; only pages that changed since a day (`2026-01-31`), if it is given.

        Raise `UsageError` if one of them is not valid.
        """
        try:
            check_url(url)
        except ValueError as error:
            raise UsageError(str(error)) from error
        if not url.lower().startswith(("http://", "https://")):
            raise UsageError(f"{url} cannot be a sitemap: its URL begins with http:// or https://.")
        self._url = url
        self._settings = settings
        self._since = None if since is None else _moment(since)
        self._public: dict[str, bool] = {}
        self.left_out = 0
        """Pages of other sites, which are not submitted: a list must not send workers to hosts that were not named."""
        if since is not None and self._since is None:
            raise UsageError(f"'{since}' is no day. Write it as 2026-01-31.")

    @property
    def name(self) -> str:
        """Name of the source, for messages."""
        return mask_url(self._url)

    @property
    def fingerprint(self) -> str:
        """The same for the same sitemap."""
        return hashlib.sha256(f"sitemap {self._url}".encode()).hexdigest()

    def entries(self) -> Iterator[InputEntry]:
        """Yield the job of each page. Raise `InputFileError` if a list cannot be read."""
        from longshore.runs.local.own_kit import own_kit

        with own_kit(self._settings or resolve({}), self._url) as kit:
            fetch = kit.http.get
            waiting = self._first(fetch)
            seen = set(waiting)
            while waiting:
                at = waiting.pop(0)
                for kind, url, changed in _listed(_text(_fetched(fetch, at)), at):
                    if kind == "sitemap":
                        if url not in seen and len(seen) < MOST_FILES and not self._is_old(changed):
                            seen.add(url)
                            waiting.append(url)
                    elif self._is_old(changed):
                        continue
                    elif not self._is_own(url):
                        self.left_out += 1
                    else:
                        yield InputEntry(payload={"url": url, "lastmod": changed} if changed else {"url": url})

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for a site that lists no pages."""
        since = "" if self._since is None else " that changed since then"
        raise InputFileError(f"{self.name} lists no pages{since}. Name its sitemap or feed itself.")

    def _first(self, fetch: Fetch) -> list[str]:
        if urlsplit(self._url).path not in ("", "/"):
            return [self._url]
        robots = urljoin(self._url, "/robots.txt")
        try:
            text = fetch(robots).text
        except WorkerError:
            text = ""  # a site may have none
        named = [urljoin(robots, url) for url in _IN_ROBOTS.findall(text)]
        return list(dict.fromkeys(named)) or [urljoin(self._url, "/sitemap.xml")]

    def _is_own(self, url: str) -> bool:
        host, own = host_of(url), urlsplit(self._url).hostname or ""
        # On another port of the same machine there may be a service that is not meant for the world.
        if host == host_of(self._url):
            return True
        return host != own and ":" not in host and same_site(host, own) and self._is_public(host)

    def _is_public(self, host: str) -> bool:
        """Return whether a host of the same site is on the internet: its jobs could reach it on a private network."""
        known = self._public.get(host)
        if known is None:
            known = self._public[host] = _is_public(host, self._settings or resolve({}))
        return known

    def _is_old(self, changed: str) -> bool:
        if self._since is None:
            return False
        moment = _moment(changed)
        # A page without a date may have changed.
        return moment is not None and moment < self._since


def _is_public(host: str, settings: Settings) -> bool:
    policy = AddressPolicy(comma_separated(settings.private_hosts))
    try:
        policy.check_text(host, own=False)
        # With a proxy, names are not looked up here.
        if settings.proxy_file is None and not settings.tor and EnvironmentProxies.of(os.environ) is None:
            policy.permitted(host, [str(each[4][0]) for each in socket.getaddrinfo(host, None)], own=False)
    except PrivateAddressError:
        return False
    except OSError:
        pass  # its job will say that there is no such host
    return True


def _fetched(fetch: Fetch, url: str) -> Response:
    try:
        return fetch(url)
    except WorkerError as error:
        raise InputFileError(f"{mask_url(url)} cannot be read: {error}.") from error


def _text(page: Response) -> str:
    if not page.body.startswith(b"\x1f\x8b"):
        return page.text
    unpacking = zlib.decompressobj(wbits=31)
    try:
        body = unpacking.decompress(page.body, MOST_BYTES)
    except zlib.error as error:
        raise InputFileError(f"{mask_url(page.url)} is damaged: {error}.") from error
    if unpacking.unconsumed_tail:
        raise InputFileError(f"{mask_url(page.url)} is larger than {MOST_BYTES:,} bytes when it is unpacked.")
    return Response(url=page.url, headers={"Content-Type": "application/xml"}, body=body).text


def _listed(text: str, at: str) -> Iterator[tuple[str, str, str]]:
    """Yield the kind (`sitemap` or `page`), the URL and the last change of each entry of a list."""
    if "<" not in text[:1000]:
        # A sitemap may be plain text, one URL a line.
        for line in text.split():
            if line.startswith(("http://", "https://")):
                yield "page", line, ""
        return
    for kind, content in _entries(text):
        written = _address(content)
        if written is None:
            continue
        try:
            url = check_url(urljoin(at, written))
        except ValueError:
            continue
        changed = _LASTMOD.search(content)
        when = changed[1].strip() if changed else ""
        yield "sitemap" if kind == "sitemap" else "page", url, when if len(when) <= _LONGEST_DATE else ""


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name of the tag and the content of each entry."""
    begun: tuple[str, int] | None = None
    for tag in _ENTRY.finditer(text):
        name = tag[2].lower()
        if not tag[1]:
            begun = name, tag.end()
        elif begun is not None and begun[0] == name:
            yield name, text[begun[1] : tag.start()].replace("<![CDATA[", "").replace("]]>", "")
            begun = None


def _address(content: str) -> str | None:
    for found in _LOC.finditer(content):
        if written := found[1].strip():
            return unescape(written)
    for link in _LINK.finditer(content):
        rel = _REL.search(link[1])
        href = _HREF.search(link[1])
        if href is not None and (rel is None or rel[1].lower() == "alternate"):
            return unescape(href[1] or href[2] or "").strip()
    return None


def _moment(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, OverflowError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
