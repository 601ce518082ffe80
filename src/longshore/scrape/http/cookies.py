"""Cookies as browsers keep them (RFC 6265), for both transports.

A value goes back exactly as it came: with its commas, spaces and quotes. The libraries parse and quote values, which
logs a session out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from urllib.parse import urlsplit

import msgspec

from longshore.clock import Clock, SystemClock
from longshore.scrape.http.public_suffixes import is_address, is_public_suffix

MOST_JARS = 1000
"""Jars of one client; beyond that, the least recently used is dropped."""
MOST_COOKIES = 10_000
"""Cookies in one jar; beyond that, those of the least recently visited domains are dropped."""
MOST_OF_DOMAIN = 200
"""Cookies of one domain; beyond that, the oldest are dropped."""
_LONGEST = 4096
"""Characters of a name and its value together, as in browsers."""
_LONGEST_ATTRIBUTE = 1024
LONGEST_HOST = 255
"""Characters of a host name, in the domain name system. Each of its labels is a domain that may have cookies."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_WHITE_SPACE = " \t"

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE_TOKEN = re.compile(r"[0-9A-Za-z:\x7f-\xff]+")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?!\d)")
_DAY = re.compile(r"(\d{1,2})(?!\d)")
_YEAR = re.compile(r"(\d{2,4})(?!\d)")


class Cookie(msgspec.Struct):
    """One cookie."""

    name: str
    value: str
    domain: str
    host_only: bool
    path: str
    secure: bool
    expires: float | None
    """Seconds since 1970; None for a cookie of the session."""
    number: int
    """Cookies with longer paths are sent first, and among equal ones those that were set first."""


class CookieJar:
    """The cookies of one client. `store` takes what a response sets, `with_cookies` adds what a request sends."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._domains: dict[str, dict[tuple[str, str], Cookie]] = {}
        self._count = 0
        self._numbers = 0

    def __len__(self) -> int:
        return self._count

    def with_cookies(self, url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers of a request with its cookies. A Cookie header of the caller's own goes first.

        Of a cookie in both, only the caller's is sent.
        """
        kept = self._header(url)
        if not kept:
            return headers
        own = next((name for name in headers if name.lower() == "cookie"), "")
        if not own:
            return {**headers, "Cookie": kept}
        names = {_name(pair) for pair in headers[own].split(";")}
        others = [pair for pair in kept.split("; ") if _name(pair) not in names]
        return {**headers, own: "; ".join([headers[own], *others])}

    def _header(self, url: str) -> str:
        """Return the value of the header Cookie for a request; empty if no cookie is for this URL."""
        if not self._domains:
            return ""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        if len(host) > LONGEST_HOST:
            return ""
        path, secure, now = parts.path or "/", parts.scheme == "https", self._clock.now()
        found = [
            cookie
            for domain in _domains_of(host)
            for cookie in self._domains.get(domain, {}).values()
            if (domain == host or not cookie.host_only)
            and _path_matches(path, cookie.path)
            and (secure or not cookie.secure)
            and (cookie.expires is None or cookie.expires > now)
        ]
        found.sort(key=lambda cookie: (-len(cookie.path), cookie.number))
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in found)

    def store(self, url: str, lines: Iterable[str]) -> None:
        """Keep the cookies of the Set-Cookie headers of a response."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        for line in lines:
            cookie = _parsed(line, host, parts.path, self._clock.now())
            if cookie is not None and (parts.scheme == "https" or self._may_be_plain(cookie)):
                self._keep(cookie)

    def clear(self) -> None:
        """Forget all cookies."""
        self._domains.clear()
        self._count = 0

    def _may_be_plain(self, cookie: Cookie) -> bool:
        """Return whether a page without encryption may set a cookie: neither a secure one, nor in place of one."""
        before = self._domains.get(cookie.domain, {}).get((cookie.path, cookie.name))
        return not cookie.secure and not (before is not None and before.secure)

    def _keep(self, cookie: Cookie) -> None:
        kept = self._domains.pop(cookie.domain, {})
        self._domains[cookie.domain] = kept  # the most recently visited domain is the last one
        before = kept.pop((cookie.path, cookie.name), None)
        self._count -= before is not None
        if cookie.expires is None or cookie.expires > self._clock.now():
            self._numbers += 1
            cookie.number = self._numbers if before is None else before.number
            kept[cookie.path, cookie.name] = cookie
            self._count += 1
        if len(kept) > MOST_OF_DOMAIN:
            oldest = min(kept.values(), key=attrgetter("number"))
            del kept[oldest.path, oldest.name]
            self._count -= 1
        if not kept:
            del self._domains[cookie.domain]
        while self._count > MOST_COOKIES:
            self._count -= len(self._domains.pop(next(iter(self._domains))))


class CookieJars:
    """The jars of one client: one for each name (a run) and each proxy, so that neither shares its cookies."""

    def __init__(self) -> None:
        self._jars: dict[tuple[str, str], CookieJar] = {}
        self._newest: tuple[str, str] | None = None

    def jar(self, name: str, proxy: str) -> CookieJar:
        """Return the jar of this name and proxy."""
        key = name, proxy
        if key == self._newest:
            return self._jars[key]
        found = self._jars.pop(key, None)
        if found is None:
            found = CookieJar()
        self._jars[key] = found  # the most recently used jar is the last one
        self._newest = key
        if len(self._jars) > MOST_JARS:
            del self._jars[next(iter(self._jars))]
        return found

    def clear(self) -> None:
        """Forget all cookies."""
        self._jars.clear()
        self._newest = None


def _name(pair: str) -> str:
    return pair.partition("=")[0].strip(_WHITE_SPACE)


def _parsed(line: str, host: str, path: str, now: float) -> Cookie | None:
    """Return the cookie of a Set-Cookie header; None if it sets none for this host."""
    pair, *attributes = line.split(";")
    name, equals, value = pair.partition("=")
    name, value = name.strip(_WHITE_SPACE), value.strip(_WHITE_SPACE)
    if not equals or not name or _CONTROL.search(line) or len(name) + len(value) > _LONGEST:
        return None
    given: dict[str, str] = {}
    for attribute in attributes:
        key, _, text = attribute.partition("=")
        text = text.strip(_WHITE_SPACE)
        if len(text) <= _LONGEST_ATTRIBUTE:
            given[key.strip(_WHITE_SPACE).lower()] = text
    domain = given.get("domain", "").removeprefix(".").lower()
    if domain and not _may_set(host, domain):
        return None
    secure, own_path = "secure" in given, given.get("path", "")
    host_only = not domain or is_address(host) or is_public_suffix(domain)
    if name.lower().startswith("__secure-") and not secure:
        return None
    if name.lower().startswith("__host-") and not (secure and host_only and not domain and own_path == "/"):
        return None
    return Cookie(
        name=name,
        value=value,
        domain=host if host_only else domain,
        host_only=host_only,
        path=own_path if own_path.startswith("/") else path[: path.rfind("/")] or "/",
        secure=secure,
        expires=_expires(given, now),
        number=0,
    )


def _may_set(host: str, domain: str) -> bool:
    """Return whether a page of `host` may set a cookie for `domain`: its own, or a domain above that is no suffix."""
    if host == domain:
        return True
    return host.endswith(f".{domain}") and not is_address(host) and not is_public_suffix(domain)


def _domains_of(host: str) -> list[str]:
    """Return the host and every domain above it."""
    labels = host.split(".")
    return [host, *(".".join(labels[begin:]) for begin in range(1, len(labels)))]


def _path_matches(path: str, cookie_path: str) -> bool:
    return path.startswith(cookie_path) and (
        cookie_path.endswith("/") or path[len(cookie_path) : len(cookie_path) + 1] in ("", "/")
    )


def _expires(given: dict[str, str], now: float) -> float | None:
    age = given.get("max-age", "")
    if age.removeprefix("-").isdecimal() and age.isascii():
        seconds = int(age[:12])
        return now + seconds if seconds > 0 else 0.0
    return _instant(given["expires"]) if "expires" in given else None


def _instant(text: str) -> float | None:
    """Return the seconds since 1970 of a date in any form that browsers read; None if it is none."""
    time: tuple[int, int, int] | None = None
    day = month = year = None
    for token in _DATE_TOKEN.findall(text):
        if time is None and (found := _TIME.match(token)):
            time = int(found[1]), int(found[2]), int(found[3])
        elif day is None and (found := _DAY.match(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.match(token)):
            year = int(found[1])
            year += 1900 if 70 <= year <= 99 else 2000 if year <= 69 else 0
    if time is None or day is None or month is None or year is None or year < 1601:
        return None
    try:
        hour, minute, second = time
        return max(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp(), 0.0)
    except ValueError:
        return None
