"""The proxy file: one proxy per line, as `address:port`, `address:port:user:password` or a URL."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from longshore.errors import InputFileError
from longshore.url import mask_url

SCHEMES = ("http", "https", "socks4", "socks5", "socks5h")
_FORMS = "address:port, address:port:user:password or a URL such as http://user:password@address:port"
_NAMED = 5
# Names with other letters also have an ASCII form (xn--…).
_ADDRESS = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):[0-9]*")
_BRACKETED = re.compile(r"\[[^\]]*\]")


class Proxy(msgspec.Struct, frozen=True):
    """One proxy: the URL for HTTP clients. Its text form masks the password."""

    url: str

    def __str__(self) -> str:
        return mask_url(self.url)


def read_proxies(path: Path) -> list[Proxy]:
    """Return the proxies of a file in order, without duplicates. Blank lines and lines starting with `#` are skipped.

    Raise `InputFileError` if the file cannot be read, has no proxy, or has invalid lines. The error names lines by
    number and never quotes them, because they may hold a password.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputFileError(f"The proxy file {path} cannot be read: {why}. Name one with PROXY_FILE.") from error
    proxies: dict[Proxy, None] = {}
    wrong = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        try:
            proxies[_proxy(entry)] = None
        except ValueError as error:
            wrong.append(f"line {number} {error}")
    if wrong:
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        raise InputFileError(f"The proxy file {path}: {'; '.join(wrong[:_NAMED])}{more}. A line is {_FORMS}.")
    if not proxies:
        raise InputFileError(f"The proxy file {path} holds no proxy. A line is {_FORMS}.")
    return list(proxies)


def checked_proxy(url: str) -> Proxy:
    """Return the proxy with this URL. Raise `ValueError` with the fault, but not the URL: it may hold a password.

    The check is strict, because programs read unusual URLs differently: a browser that cannot read the proxy's address
    connects directly, and a `/` or `#` that ends the address too early exposes the rest of a password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("is no URL") from None
    if parts.scheme.lower() not in SCHEMES:
        raise ValueError(f"begins with none of {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
    if parts.path not in ("", "/") or "?" in url or "#" in url:
        raise ValueError("has text after its port; in a password, write / as %2F, ? as %3F and # as %23")
    if not parts.hostname:
        raise ValueError("has no address")
    if not _ADDRESS.fullmatch(parts.netloc.rpartition("@")[2]):
        raise ValueError("has no address of letters, digits, dots and hyphens and no port between 1 and 65535")
    try:
        port = parts.port
    except ValueError:
        port = None
    if not port:
        raise ValueError("has no port between 1 and 65535")
    return Proxy(url)


def _proxy(entry: str) -> Proxy:
    if "://" in entry:
        return checked_proxy(entry)
    # Only the password and an address in brackets may contain a colon.
    bracketed = _BRACKETED.match(entry)
    address = bracketed[0] if bracketed else entry.partition(":")[0]
    behind, *rest = entry[len(address) :].split(":", 3)
    if behind or not address or len(rest) not in (1, 3) or " " in entry:
        raise ValueError("is no proxy")
    if not (rest[0].isascii() and rest[0].isdigit() and 0 < int(rest[0]) < 65536):
        raise ValueError("has no port between 1 and 65535")
    login = f"{quote(rest[1], safe='')}:{quote(rest[2], safe='')}@" if len(rest) == 3 else ""
    return checked_proxy(f"http://{login}{address}:{rest[0]}")
