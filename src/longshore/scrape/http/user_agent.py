"""Who we say we are: the user agent of every request, and the name that robots.txt knows us by."""

from __future__ import annotations

import functools
import re

PRODUCT = "longshore"

_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


@functools.cache
def user_agent(contact: str = "") -> str:
    """`longshore/1.2`, with a page or an address where a site's owner reaches whoever runs this, if one is given."""
    from importlib.metadata import version

    # A line break would end the header.
    said = " ".join(contact.split())
    return f"{PRODUCT}/{version('longshore')}" + (f" (+{said})" if said else "")


def robot_name(agent: str) -> str:
    """What rules in robots.txt are looked up by: the first word of a user agent, without its version."""
    found = _TOKEN.match(agent.strip())
    return found[0] if found else PRODUCT
