"""robots.txt: the rules of a site for robots, by RFC 9309.

The first request to a site fetches its file, and the result is kept for a day:

    2xx                 its rules apply
    4xx                 there are no rules
    429, 5xx            everything is forbidden until the file can be read: jobs return later, at first after a minute.
                        An older copy stays in force. After a day of this, attempts fail
    no response         the site cannot be reached: the attempt fails as it would without robots.txt
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from longshore.clock import Clock
from longshore.errors import ConnectionFailedError, ProcessingError, TimedOutError
from longshore.pacing.contract import HostClosedError, Limiter
from longshore.scrape.http.address_policy import PrivateAddressError
from longshore.scrape.http.response import Response, in_words, retry_after
from longshore.url import host_of, mask_url

if TYPE_CHECKING:
    from protego import Protego

KEPT = 24 * 3600.0
"""Seconds."""
REMEMBERED = 5_000
"""Sites; beyond that, the oldest entries are dropped first."""
LONGEST_FILE = 512 * 1024
"""Bytes. The rest of a file does not count."""
_LONGEST_LINE = 8 * 2083 - 1
"""Characters; the rest of a line does not count. Google's parser has the same limit: a few times the longest URL."""
_FIRST_WAIT = 60.0
_LONGEST_WAIT = 3600.0
_LONGEST_DELAY = 24 * 3600.0
_LOOKED_AT, _TRIED = 100, 5
_USER_AGENT = re.compile(
    r"\s*user[ -]?agent\s*[:\s]\s*(?:(?P<all>\*)\s*(?:#|\s|\Z)|\**(?P<name>[A-Za-z0-9_-]*))", re.IGNORECASE
)
# Protego also reads misspellings such as `Dissalow`, and a space instead of the colon.
_RULE = re.compile(
    r"\s*(?:di\w*|allow|crawl[ -]delay|request[ -]rate|visit[ -]time|site-?maps?|host)\s*[:\s]", re.IGNORECASE
)
_WILD = re.compile(r"[*$]")

Fetch = Callable[[str], Awaitable[Response]]
"""Fetches a URL without checking robots.txt."""


class RobotsError(ProcessingError):
    """The site's robots.txt forbids the URL. Not retried: the rule will still apply."""

    retryable = False
    skips_links = True


class Robots:
    """The robots.txt rules of the visited sites, for the robot `name`."""

    def __init__(self, name: str, pace: Limiter, clock: Clock) -> None:
        self._name = name
        self._pace = pace
        self._clock = clock
        self._known: dict[str, _Site] = {}
        self._fetching: dict[str, asyncio.Task[_Site]] = {}

    def free(self, site: str) -> bool:
        """Return whether this site (the beginning of a URL, up to the path) is known to forbid nothing."""
        known = self._known.get(site)
        return (
            known is not None and known.rules is None and not known.closed_by and self._clock.monotonic() < known.until
        )

    async def check(self, url: str, site: str, fetch: Fetch) -> bool:
        """Return if the URL may be fetched: whether the site asks for a delay between requests.

        The first caller for a site fetches its file; others wait for that.

        Raise `RobotsError` if the URL is forbidden, `HostClosedError` if the file cannot be read yet, and any error of
        `fetch`.
        """
        known = self._known.get(site)
        if known is None or known.until <= self._clock.monotonic():
            known = await self._ask(url, site, fetch)
        if known.closed_by:
            self._raise_closed(url, known)
        elif known.rules is not None and not known.rules.can_fetch(url, self._name):
            rule = _rule(known.text, url, self._name)
            raise RobotsError(
                f"{mask_url(url)} is closed to robots by 'Disallow: {rule}' in the site's robots.txt. "
                "If you may fetch it anyway, declare the handler with @handler(..., robots=False)."
            )
        return known.delayed

    async def close(self) -> None:
        """Cancel the fetches in progress. Known rules are kept."""
        fetching = list(self._fetching.values())
        for task in fetching:
            task.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)

    async def _ask(self, url: str, site: str, fetch: Fetch) -> _Site:
        task = self._fetching.get(site)
        others = task is not None
        if task is None:
            task = self._fetching[site] = asyncio.ensure_future(self._fetch(url, site, fetch))
            task.add_done_callback(lambda done: self._fetched(site, done))
        try:
            # Shielded: other callers wait for the same file when the first caller is cancelled.
            return await asyncio.shield(task)
        except PrivateAddressError:
            if not others:
                raise
            # The job that asked for the file may not reach this host; ours may.
            return await self._ask(url, site, fetch)
        except (ConnectionFailedError, TimedOutError) as error:
            kind = TimedOutError if isinstance(error, TimedOutError) else ConnectionFailedError
            raise kind(f"{mask_url(url)} could not be fetched: robots.txt is read first, and {error}") from error

    def _fetched(self, site: str, task: asyncio.Task[_Site]) -> None:
        self._fetching.pop(site, None)
        if not task.cancelled():
            task.exception()  # mark as retrieved: without a waiting caller asyncio would log the error

    async def _fetch(self, url: str, site: str, fetch: Fetch) -> _Site:
        parts = urlsplit(url)
        address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/robots.txt"
        try:
            answer = await fetch(address)
        except ProcessingError as error:
            if isinstance(error, PrivateAddressError) and error.host == host_of(address):
                raise
            # A redirect to a private network, endless redirects or a body that is too large count as no file.
            answer = Response(url=address, status=404)
        before = self._known.pop(site, None)
        while len(self._known) >= REMEMBERED:
            self._known.pop(next(iter(self._known)))
        now = self._clock.monotonic()
        if answer.status == 429 or answer.status >= 500:
            known = _unreadable(answer, before, now)
        else:
            known = self._read(answer, host_of(url), now)
        self._known[site] = known
        return known

    def _read(self, answer: Response, host: str, now: float) -> _Site:
        if answer.status >= 300:
            return _Site(now + KEPT)
        from protego import Protego

        text = answer.body[:LONGEST_FILE].decode("utf-8-sig", errors="replace")
        lines = rules_for(self._name, text)
        rules = Protego.parse("\n".join(lines))
        # Protego also reads misspellings such as `Dissalow`.
        forbids = any(line.lstrip()[:2].lower() == "di" for line in lines)
        known = _Site(now + KEPT, rules, "\n".join(lines)) if forbids else _Site(now + KEPT)
        if delay := _delay(rules, self._name):
            known.delayed = True
            self._pace.crawl_delay(host, delay)
        return known

    def _raise_closed(self, url: str, known: _Site) -> None:
        now = self._clock.monotonic()
        why = f"its robots.txt answers {known.closed_by}, so nothing may be fetched"
        if now - known.since > KEPT:
            raise RobotsError(f"{mask_url(url)} may not be fetched: {why}, for more than a day", retryable=True)
        raise HostClosedError(host_of(url), max(known.until - now, 1.0), why)


class _Site:
    """The rules of one site."""

    __slots__ = ("closed_by", "delayed", "rules", "since", "text", "until", "wait")

    def __init__(self, until: float, rules: Protego | None = None, text: str = "") -> None:
        self.until = until
        self.rules = rules
        """None if nothing is forbidden."""
        self.text = text
        self.closed_by = ""
        """The status of the robots.txt that closes the whole site, in words; empty if the site is open."""
        self.delayed = False
        """Whether it asks for a delay between two requests."""
        self.since = 0.0
        self.wait = 0.0


def _unreadable(answer: Response, before: _Site | None, now: float) -> _Site:
    longer = 0.0 if before is None else min(before.wait * 2, _LONGEST_WAIT)
    wait = max(longer or _FIRST_WAIT, retry_after(answer.headers) or 0.0)
    if before is not None and not before.closed_by:
        before.until, before.wait = now + wait, wait
        return before
    known = _Site(now + wait)
    known.closed_by, known.wait = in_words(answer.status), wait
    known.since = before.since if before is not None else now
    return known


def rules_for(name: str, text: str) -> list[str]:
    """Return the lines of a file that are rules, with the groups of the robot `name` under exactly this name.

    `User-agent: longshore/1.2` and `User-agent: Longshore crawler` are for longshore, `User-agent: long` is not. A line
    with any other field does not end the list of robots that a group is for.
    """
    lines = []
    for whole in text.splitlines():
        line = whole[:_LONGEST_LINE]
        found = _USER_AGENT.match(line)
        if found is None:
            if _RULE.match(line):
                lines.append(line)
        elif found["all"]:
            lines.append("User-agent: *")
        else:
            # Another robot needs a group of its own, whose name is no beginning of ours.
            ours = (found["name"] or "").lower() == name.lower()
            lines.append(f"User-agent: {name if ours else f'not-{name}'}")
    return lines


def _delay(rules: Protego, name: str) -> float:
    """Return the seconds between two requests that the file asks for; 0 for none or an invalid number."""
    rate = rules.request_rate(name)
    asked = (rules.crawl_delay(name) or 0.0, rate.seconds / rate.requests if rate is not None else 0.0)
    return min(max((seconds for seconds in asked if seconds > 0), default=0.0), _LONGEST_DELAY)


def _rule(text: str, url: str, name: str) -> str:
    """Return the rule that forbids a URL: the longest one without which the URL would be allowed.

    The rule is only for the error message, and a file may have 100,000 rules, so only some are tested.
    """
    from protego import Protego

    path = unquote(url[url.find("/", 8) :])
    lines = text.split("\n")
    found = {rule: number for number, line in enumerate(lines) if (rule := _forbidden(line)) and _may_match(rule, path)}
    likely = sorted(found, key=len, reverse=True)[:_LOOKED_AT]
    matching = [rule for rule in likely if not Protego.parse(f"User-agent: *\nDisallow: {rule}").can_fetch(url, name)]
    for rule in matching[:_TRIED]:
        others = [*lines[: found[rule]], *lines[found[rule] + 1 :]]
        if Protego.parse("\n".join(others)).can_fetch(url, name):
            return rule
    return matching[0] if matching else "/"


def _forbidden(line: str) -> str:
    name, _, rule = line.partition("#")[0].partition(":")
    return rule.strip() if name.strip().lower() == "disallow" else ""


def _may_match(rule: str, path: str) -> bool:
    return path.startswith(unquote(_WILD.split(rule, 1)[0]))
