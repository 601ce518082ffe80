"""Mask secrets in log lines: passwords in URLs, and values with the name of a secret, become `***`.

This runs for every log line and has few rules. `scrape/capture/masking.py` masks captured requests and responses:
its rules are wider (cookies, session ids, CSRF tokens, JSON Web Tokens) and it knows forms, headers and exchanges.
"""

from __future__ import annotations

import re
from typing import Any

from longshore.url import mask_urls

MASK = "***"
_WORDS = r"(?:password|passwd|pwd|passphrase|token|secret|api[_-]?key|access[_-]?key|private[_-]?key|authorization)"
# A whole word of the name: `db_password` and `X-Api-Key` are secrets, `tokens` (a count) is not.
_SECRET_NAME = re.compile(rf"(?:^|[_\-. ]){_WORDS}(?:$|[_\-. ])", re.IGNORECASE)
_SECRET_IN_TEXT = re.compile(
    rf"(?P<name>(?<![a-z0-9]){_WORDS}[\"']?\s*(?:=|:)\s*[\"']?)(?P<scheme>(?:bearer|basic)\s+)?(?P<secret>[^\s\"'&,;)}}\]]+)",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Return whether a setting, header or field of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def mask_text(text: str) -> str:
    """Return the text with passwords in URLs and values such as `password=…` replaced."""
    if "://" in text:
        text = mask_urls(text)
    return _SECRET_IN_TEXT.sub(lambda found: f"{found['name']}{found['scheme'] or ''}{MASK}", text)


def mask(value: Any) -> Any:
    """Return the value with every secret inside it replaced, at any depth. Only texts, lists and dicts are changed."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, dict):
        return {key: MASK if is_secret_name(str(key)) and item else mask(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [mask(item) for item in value]
    return value
