"""Digest authentication (RFC 7616): the answer to a site that asks for a password without sending it."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from longshore.scrape.http.request import Request
from longshore.scrape.http.response import Response

_CHALLENGE = re.compile(r"\bDigest\s+", re.IGNORECASE)
_PARAMETER = re.compile(r'\s*,?\s*([A-Za-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_ESCAPED, _BACKSLASH = re.compile(r'(["\\])'), r"\\\1"
_STRONGEST_FIRST: dict[str, Callable[[bytes], str]] = {
    "sha-512-256": lambda data: hashlib.new("sha512_256", data).hexdigest(),
    "sha-256": lambda data: hashlib.sha256(data).hexdigest(),
    # Weak, but the one that most sites ask for.
    "md5": lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(),
}


def with_digest(request: Request, refused: Response, login: tuple[str, str]) -> Request | None:
    """Return the request with the header that answers a 401; None if the site asks for no digest that we know."""
    challenge = _challenge(refused.headers)
    if challenge is None:
        return None
    parts = urlsplit(refused.url)  # as it was sent: the transport may have encoded the URL that was given
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    value = _authorization(challenge, login, request.method, target, secrets.token_hex(8))
    return msgspec.structs.replace(request, headers={**request.headers, "Authorization": value})


def _challenge(headers: Mapping[str, str]) -> dict[str, str] | None:
    """Return the parameters of the strongest challenge."""
    lines = getattr(headers, "getall", lambda name, _: [headers.get(name, "")])("WWW-Authenticate", [])
    found = []
    for line in lines:
        for start in _CHALLENGE.finditer(line):
            parameters, at = {}, start.end()
            while (parameter := _PARAMETER.match(line, at)) is not None:
                quoted = parameter[2]
                parameters[parameter[1].lower()] = parameter[3] if quoted is None else quoted.replace("\\", "")
                at = parameter.end()
            found.append(parameters)
    order = list(_STRONGEST_FIRST)
    known = [each for each in found if _algorithm(each) in order and {"realm", "nonce"} <= each.keys()]
    return min(known, key=lambda each: order.index(_algorithm(each)), default=None)


def _algorithm(challenge: dict[str, str]) -> str:
    return challenge.get("algorithm", "MD5").lower().removesuffix("-sess")


def _authorization(challenge: dict[str, str], login: tuple[str, str], method: str, target: str, cnonce: str) -> str:
    def digest(*values: str) -> str:
        return _STRONGEST_FIRST[_algorithm(challenge)](":".join(values).encode())

    user, password = login
    realm, nonce = challenge["realm"], challenge["nonce"]
    secret = digest(user, realm, password)
    if challenge.get("algorithm", "").lower().endswith("-sess"):
        secret = digest(secret, nonce, cnonce)
    sent = {"username": user, "realm": realm, "nonce": nonce, "uri": target}
    bare = {"algorithm": challenge["algorithm"]} if "algorithm" in challenge else {}
    if "auth" in re.split(r"[\s,]+", challenge.get("qop", "").lower()):
        bare |= {"qop": "auth", "nc": "00000001"}
        sent |= {"cnonce": cnonce}
        response = digest(secret, nonce, "00000001", cnonce, "auth", digest(method, target))
    else:
        response = digest(secret, nonce, digest(method, target))
    sent |= {"response": response}
    if "opaque" in challenge:
        sent["opaque"] = challenge["opaque"]
    quoted = [f'{name}="{_ESCAPED.sub(_BACKSLASH, value)}"' for name, value in sent.items()]
    return "Digest " + ", ".join([*quoted, *(f"{name}={value}" for name, value in bare.items())])
