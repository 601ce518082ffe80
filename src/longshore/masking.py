"""Mask secrets in text and values: the one list of names and forms, for failures, log lines, bundles and reports.

Values with the name of a secret are masked in any text, and at any depth of a value. Passwords in URLs, proxies written
as `host:port:user:password`, JSON Web Tokens, private keys and keys of known services are masked by their form. Masking
twice changes nothing. Pages choose much of this text, so masking it takes linear time.
"""

from __future__ import annotations

import re
from typing import Any

from longshore.url import TOKEN, mask_url, mask_urls

MASK = "***"

_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|jwt|auth|authorization|credentials?|[a-z]{0,20}sess(?:ion)?id|sid|csrf|"
    r"xsrf|signature|sig|"
    r"api[_-]?key|access[_-]?key|private[_-]?key|session[_-]?(?:id|key)|client[_-]?secret"
)
# A whole word of the name: `db_password`, `X-Api-Key` and `accessToken` are secrets; `tokens`, a count, is not.
_SECRET_NAME = re.compile(rf"(?:^|[_\-. \[]|(?<=[a-z])(?=[A-Z]))(?i:{_WORDS})(?:$|[_\-. \]]|(?<=[a-z])(?=[A-Z]))")
# Words that are secret at the end of a longer one, too: PGPASSWORD, dbpasswd.
_SECRET_END = re.compile(r"(?:password|passwd|passphrase|apikey|secretkey|accesskey)\Z", re.IGNORECASE)
_SECRET_NAMES = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "www-authenticate", "proxy-authenticate"}
)
_LONGEST_NAME = 100
_JWT = re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*")
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}KEY-----)?")
# The form of a proxy file. The user has a letter: `page.py:10:5:E501` is a place in a program.
_PROXY = re.compile(
    r"(?<![\w.:/@-])(?P<proxy>[\w-]{1,63}(?:\.[\w-]{1,63}){1,10}:\d{2,5}:(?=\d{0,60}[^\W\d])[^\s:@/]{1,64}:)[^\s:@/,;'\")]+"
)
# Every secret name has one of these. Most texts have none, and are not searched further.
_HINT = re.compile(r"pass|pwd|secret|token|jwt|auth|cred|sess|sid|csrf|xsrf|sig|key", re.IGNORECASE)
# A name begins once in a run of letters, so that a long run is read once.
_NAMED = re.compile(rf"(?<![\w.-])(?P<name>[\w.-]{{1,{_LONGEST_NAME}}})[\"']?\s{{0,9}}[=:]\s{{0,9}}")
_VALUE = re.compile(
    r"[\"']?(?:(?:bearer|basic|token)\s{1,9})?"
    r"(?P<secret>digest\s[^\r\n]+|(?<=[\"'])[^\n\"']+|[(\[{][^)\]}\n]*|[^\s\"'&,;)}\]]+)",
    re.IGNORECASE,
)
_IN_QUERY = re.compile(r"(?<=[?&])(?P<name>[^=&#\s]+)=(?P<value>[^&#\s]+)")
_COOKIE = re.compile(r"(?P<name>(?<![\w-])(?:set-)?cookie[\"']?: {0,9}[\"']?)[^\r\n\"']+", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Return whether a header, parameter, field or setting of this name holds a secret."""
    if len(name) > _LONGEST_NAME:
        name = name[-_LONGEST_NAME:]
    return bool(_SECRET_NAME.search(name) or _SECRET_END.search(name)) or name.lower() in _SECRET_NAMES


def mask_text(text: str) -> str:
    """Return a text (a message, a traceback) with the secrets of its URLs and values such as `password=…` masked."""
    if "://" in text:
        text = mask_urls(text)
    if "=" in text or ":" in text:
        if "ookie" in text or "OOKIE" in text:
            text = _COOKIE.sub(rf"\g<name>{MASK}", text)
        if _HINT.search(text):
            text = _mask_named(text)
        text = _PROXY.sub(rf"\g<proxy>{MASK}", text)
    text = TOKEN.sub(MASK, text)
    if "PRIVATE KEY" in text:
        text = _KEY_BLOCK.sub(MASK, text)
    return _JWT.sub(MASK, text) if "eyJ" in text else text


def _mask_named(text: str) -> str:
    shown, done, position = [], 0, 0
    while (found := _NAMED.search(text, position)) is not None:
        position = found.end()
        if is_secret(found["name"]) and (value := _VALUE.match(text, position)) is not None:
            shown += [text[done : value.start("secret")], MASK]
            done = position = value.end()
    return "".join([*shown, text[done:]])


def mask_address(url: str) -> str:
    """Return a URL with its secrets masked. Masking twice changes nothing."""
    masked = mask_url(url)
    if "?" in masked:
        masked = _IN_QUERY.sub(_parameter, masked)
    return _JWT.sub(MASK, masked) if "eyJ" in masked else masked


def _parameter(found: re.Match[str]) -> str:
    return f"{found['name']}={MASK}" if is_secret(found["name"]) else found[0]


def mask_value(value: Any) -> Any:
    """Return a value such as a payload with every secret in it masked, at any depth.

    Only texts, lists and dicts are changed.
    """
    match value:
        case str():
            return mask_address(value) if value.startswith(("http://", "https://")) else mask_text(value)
        case dict():
            return {name: MASK if item and is_secret(str(name)) else mask_value(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [mask_value(item) for item in value]
        case _:
            return value
