"""URLs: their canonical form, the key made of it, the host politeness is counted by, and a form safe to show."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from w3lib.url import canonicalize_url

# Parameters that name the visitor or the campaign, never the page.
_TRACKING = re.compile(
    r"^(utm_\w+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|twclid|ttclid|igshid|mc_cid|mc_eid|_ga|_gl)$"
)
# A URL like this is its own canonical form. Most URLs of a large file are, and the full way costs 20 times as much.
# Not one with a `.` or `..` for a segment, which the full way resolves, nor with several parameters, which it sorts.
_ALREADY_CANONICAL = re.compile(
    r"https?://(?P<host>[a-z0-9.-]+)(?![^?]*/\.\.?(?:[/?]|\Z))/[A-Za-z0-9._~/-]*"
    r"(?:\?(?P<parameter>[A-Za-z0-9_-]+)=[A-Za-z0-9._-]*)?\Z"
)
# Up to the last @ before the path: a password may hold an @, or a space, that nobody encoded.
_USER_AND_PASSWORD = re.compile(r"(?P<head>[a-z][a-z0-9+.-]*://)(?P<user>[^/@:\s]*):[^/\n]*@", re.IGNORECASE)
_LONE_USER = re.compile(r"(?P<head>[a-z][a-z0-9+.-]*://)(?!git@)[^/@:\s]+@", re.IGNORECASE)
_SECRET_PARAMETER = re.compile(
    r"(?P<name>[?&][^=&\s]*(?:password|passwd|secret|token|api_?key|auth)[^=&\s]*)=[^&\s]*", re.IGNORECASE
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def canonical_url(url: str) -> str:
    """One spelling for all spellings of a URL that certainly name the same page.

    The fragment and tracking parameters are dropped, the query is sorted, scheme and host are in lower case, and a
    default port is left out. The case of the path and every parameter that may mean something are kept.
    """
    already = _ALREADY_CANONICAL.match(url)
    if already and not _TRACKING.match(already["parameter"] or ""):
        return url
    try:
        return _canonical(url.strip())
    except ValueError:
        return url.strip()  # no URL by any standard (a port that is no number, say): it is its own only spelling


def _canonical(url: str) -> str:
    parts = urlsplit(canonicalize_url(url))
    netloc = parts.netloc.lower() if "@" not in parts.netloc else parts.netloc
    if parts.port is not None and parts.port == _DEFAULT_PORTS.get(parts.scheme):
        netloc = netloc.rpartition(":")[0]
    query = parts.query
    if query:
        pairs = parse_qsl(query, keep_blank_values=True)
        kept = [(name, value) for name, value in pairs if not _TRACKING.match(name)]
        if len(kept) != len(pairs):
            query = urlencode(kept)
    return urlunsplit((parts.scheme, netloc, parts.path or "/", query, ""))


def url_key(url: str) -> str:
    """The key of a URL's job: the SHA-256 of its canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_url(url).encode()).hexdigest()


def host_of(url: str) -> str:
    """What politeness is counted by: the host in lower case, with the port where it is not the usual one."""
    if plain := _ALREADY_CANONICAL.match(url):
        return plain["host"]
    try:
        parts = urlsplit(url)
        name, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if name is None:
        return ""
    return name if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f"{name}:{port}"


def mask_url(url: str) -> str:
    """The URL with what is secret in it replaced by `***`, for logs, errors and screens.

    Secret are a password, a user name that stands alone (a token), and parameters named like one.
    """
    masked = _USER_AND_PASSWORD.sub(r"\g<head>\g<user>:***@", url)
    masked = _LONE_USER.sub(r"\g<head>***@", masked)
    return _SECRET_PARAMETER.sub(r"\g<name>=***", masked)
