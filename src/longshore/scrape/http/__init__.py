"""The HTTP client of the kit.

`Http` and `StatusError` can be imported from here, as earlier versions documented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.system.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from longshore.scrape.http.client import Http, HttpOptions, SyncHttp
    from longshore.scrape.http.response import Response, StatusError

__all__ = ["Http", "HttpOptions", "Response", "StatusError", "SyncHttp"]

__getattr__ = lazy_exports(
    __name__,
    {
        "Http": "client",
        "HttpOptions": "client",
        "Response": "response",
        "StatusError": "response",
        "SyncHttp": "client",
    },
)
