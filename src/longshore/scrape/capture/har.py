"""The responses that a browser page loaded as a HAR file, the format in which browsers' tools save and show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from longshore.extensions.traces import ExchangeKind
from longshore.scrape.capture.exchange import BundledExchange


def har_of(exchanges: Iterable[BundledExchange]) -> bytes | None:
    """Return the HAR file of the responses among `exchanges` that browser pages loaded; None if there are none.

    The bodies stay in the files of the bundle, which the entries name in `_file`.
    """
    entries = [_entry(each) for each in exchanges if each.kind is ExchangeKind.LOADED and each.status is not None]
    if not entries:
        return None
    log = {"version": "1.2", "creator": {"name": "Longshore", "version": "1"}, "entries": entries}
    return msgspec.json.format(msgspec.json.encode({"log": log}), indent=1)


def _entry(exchange: BundledExchange) -> dict[str, Any]:
    milliseconds = exchange.seconds * 1000
    kind = next((value for name, value in exchange.headers.items() if name.lower() == "content-type"), "")
    content = {"size": -1, "mimeType": kind} | ({"_file": exchange.file} if exchange.file else {})
    request = {
        "method": exchange.method,
        "url": exchange.url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _pairs(exchange.request_headers),
        "queryString": [{"name": name, "value": value} for name, value in parse_qsl(urlsplit(exchange.url).query)],
        "headersSize": -1,
        "bodySize": -1,
    }
    if exchange.request_body:
        request["postData"] = {"mimeType": "", "text": exchange.request_body}
    return {
        "startedDateTime": datetime.fromtimestamp(exchange.at, UTC).isoformat(),
        "time": milliseconds,
        "request": request,
        "response": {
            "status": exchange.status,
            "statusText": "",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _pairs(exchange.headers),
            "content": content,
            "redirectURL": exchange.headers.get("location", ""),
            "headersSize": -1,
            "bodySize": -1,
        },
        "cache": {},
        "timings": {"send": 0, "wait": milliseconds, "receive": 0},
    }


def _pairs(headers: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers.items()]
