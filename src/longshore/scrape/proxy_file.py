"""The proxy file: one proxy a line, as `address:port`, `address:port:user:password` or a URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from longshore.errors import InputFileError
from longshore.url import mask_url

SCHEMES = ("http", "https", "socks4", "socks5", "socks5h")
_FORMS = "address:port, address:port:user:password or a URL such as http://user:password@address:port"
_NAMED = 5


class Proxy(msgspec.Struct, frozen=True):
    """One proxy, as the URL that clients take."""

    url: str

    def __str__(self) -> str:
        return mask_url(self.url)


def read_proxies(path: Path) -> list[Proxy]:
    """The proxies of a file, each once, in their order. Blank lines and lines that start with `#` are passed over.

    `InputFileError` where it cannot be read, holds no proxy, or has lines that are none: they are named by number, and
    never quoted, for they may hold a password.
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


def _proxy(entry: str) -> Proxy:
    if "://" in entry:
        parts = urlsplit(entry)
        if parts.scheme.lower() not in SCHEMES:
            raise ValueError(f"begins with none of {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
        if not parts.hostname:
            raise ValueError("has no address")
        try:
            port = parts.port
        except ValueError:
            port = None
        if not port:
            raise ValueError("has no port between 1 and 65535")
        return Proxy(entry)
    # A password may hold a colon; nothing before it can.
    host, *rest = entry.split(":", 3)
    if not host or len(rest) not in (1, 3) or " " in entry:
        raise ValueError("is no proxy")
    if not (rest[0].isascii() and rest[0].isdigit() and 0 < int(rest[0]) < 65536):
        raise ValueError("has no port between 1 and 65535")
    login = f"{quote(rest[1], safe='')}:{quote(rest[2], safe='')}@" if len(rest) == 3 else ""
    return Proxy(f"http://{login}{host}:{rest[0]}")
