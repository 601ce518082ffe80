"""Domains below which anyone can have a site (`com`, `co.uk`, `github.io`), by the public suffix list.

Two hosts belong to one site if they share a domain below a public suffix.
"""

from __future__ import annotations

import ipaddress
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


def is_public_suffix(domain: str) -> bool:
    """Return whether anyone can have a site below `domain`: a cookie for it would cross sites."""
    return "." not in domain or _suffixes().is_public(domain)


def same_site(one: str, other: str) -> bool:
    """Return whether two host names, without ports, belong to one site."""
    if one == other:
        return True
    if is_address(one) or is_address(other):
        return False
    site = _suffixes().privatesuffix(one)
    return site is not None and site == _suffixes().privatesuffix(other)


def is_address(host: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@cache
def _suffixes() -> PublicSuffixList:
    # Made on use: reading the list takes a while.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
