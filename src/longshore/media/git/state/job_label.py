"""The label of a job: its name for people, in file names and commit messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from longshore.url import host_of

_LONGEST, _LONGEST_HOST = 48, 24
_READ = 200
"""Characters that are looked at: keys and URLs may be very long."""
_DERIVED_KEY = re.compile(r"[0-9a-f]{64}")
"""A key that is the hash of a URL or of a payload."""
_PATH = re.compile(r"[^/?#]*//[^/?#]*([^?#]*)")
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"{device}{n}" for device in ("com", "lpt") for n in range(1, 10))}
)
"""Names of devices on Windows: no file there can have such a name before its first dot."""


def label_of(kind: str, key: str, payload: Mapping[str, Any]) -> str:
    """Return the label of a job: its key; if that is a hash, the host and path of its URL; without a URL, its kind.

    It is safe in the file names of every system. Several jobs may have the same label.
    """
    if not _DERIVED_KEY.fullmatch(key):
        return _safe(key[:_READ])[:_LONGEST].rstrip("._-") or "job"
    url = payload.get("url")
    if not isinstance(url, str):
        return _safe(kind[:_READ])[:_LONGEST].rstrip("._-") or "job"
    host, path = _safe(host_of(url))[:_LONGEST_HOST], _PATH.match(url)
    # The end of a long path says which page it is; its beginning is that of all pages of the site.
    tail = _safe(path[1][-_READ:] if path else "")[-(_LONGEST - _LONGEST_HOST) :].strip("._-")
    return _unreserved("_".join(part for part in (host, tail) if part)) or "job"


def _safe(text: str) -> str:
    return _unreserved(_UNSAFE.sub("_", text).strip("._-"))


def _unreserved(label: str) -> str:
    return f"_{label}" if label.partition(".")[0].lower() in _RESERVED else label
