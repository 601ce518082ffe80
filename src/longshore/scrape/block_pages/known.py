"""The block pages of large content delivery networks and bot filters, as they are sent with status 200, too.

Many ordinary pages carry a script of such a filter, and articles write about them. So a page counts only if it has all
marks of one kind, is short, and has few links.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

LONGEST = 64 * 1024
"""Bytes. Block pages are shorter."""
_MOST_LINKS = 8


class KnownBlockPage(msgspec.Struct, frozen=True):
    """A block page that is recognised by these bytes, all of which it has."""

    name: str
    marks: tuple[bytes, ...]


KNOWN = (
    KnownBlockPage("a challenge of Cloudflare", (b"_cf_chl_opt", b"/cdn-cgi/challenge-platform/")),
    KnownBlockPage("a block page of Cloudflare", (b"cf-error-details", b"Attention Required!")),
    KnownBlockPage("a block page of Akamai", (b"errors.edgesuite.net", b"Access Denied")),
    KnownBlockPage("a challenge of Akamai", (b"sec-if-cpt-container",)),
    KnownBlockPage("a block page of Imperva", (b"_Incapsula_Resource", b'id="main-iframe"')),
    KnownBlockPage("a challenge of DataDome", (b".captcha-delivery.com/",)),
    KnownBlockPage("a challenge of HUMAN", (b"px-captcha", b"Access to this page has been denied")),
    KnownBlockPage("a challenge of AWS WAF", (b"gokuProps", b".awswaf.com/")),
    KnownBlockPage("a block page of Sucuri", (b"Sucuri WebSite Firewall", b"Access Denied")),
)
# Both say it in a header, which no ordinary page has.
_HEADERS = (
    ("cf-mitigated", frozenset({"challenge"}), "a challenge of Cloudflare"),
    ("x-amzn-waf-action", frozenset({"challenge", "captcha"}), "a challenge of AWS WAF"),
)


def known_block_page(headers: Mapping[str, str], body: bytes) -> str:
    """Return what kind of known block page this is; empty if it is none."""
    for header, values, name in _HEADERS:
        if headers.get(header, "").strip().lower() in values:
            return name
    if len(body) > LONGEST:
        return ""
    for page in KNOWN:
        if all(mark in body for mark in page.marks) and body.lower().count(b"<a ") <= _MOST_LINKS:
            return page.name
    return ""
