"""The user agent of every request, and the robot name that robots.txt rules are matched against."""

from __future__ import annotations

import functools
import re

PRODUCT = "longshore"

_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


@functools.cache
def user_agent(contact: str = "") -> str:
    """Return `longshore/1.2`, followed by `contact`: a page or address where a site's owner can reach the user."""
    from importlib.metadata import version

    # A line break would end the header.
    text = " ".join(contact.split())
    return f"{PRODUCT}/{version('longshore')}" + (f" (+{text})" if text else "")


def robot_name(agent: str) -> str:
    """Return the name for robots.txt rules: the first word of a user agent, without its version."""
    found = _TOKEN.match(agent.strip())
    return found[0] if found else PRODUCT
