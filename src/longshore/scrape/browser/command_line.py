"""The command line that browsers are started with."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from longshore.errors import SettingsError
from longshore.scrape.proxies.proxy_file import checked_proxy
from longshore.system.processes import runs_as_root

BLOCKABLE = ("image", "media", "font", "stylesheet", "script", "xhr", "fetch")
"""The types of resources that can be blocked."""

RESOURCE_TYPES = {
    "image": "Image",
    "media": "Media",
    "font": "Font",
    "stylesheet": "Stylesheet",
    "script": "Script",
    "xhr": "XHR",
    "fetch": "Fetch",
}
"""The names of these types in the browser's debugging protocol."""

NEVER_SENT = frozenset({"image", "font"})
"""Types that a command line option turns off: this costs nothing and works in every frame."""

# Turn off the browser's own network traffic: updates, reports, accounts.
_QUIET = (
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-quic",
    "--disable-sync",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
)
# Keep tabs in the background as fast as the one in front.
_AWAKE = (
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)


def checked_blocked(blocked: Iterable[str]) -> frozenset[str]:
    """Return the types to block. Raise `SettingsError` for an unknown type."""
    wanted = frozenset(blocked)
    if unknown := sorted(wanted.difference(BLOCKABLE)):
        raise SettingsError(f"'{unknown[0]}' cannot be blocked in a browser. Choose from {', '.join(BLOCKABLE)}.")
    return wanted


def needs_no_sandbox() -> bool:
    """Return whether the sandbox must be off: it does not work for root. For other users it stays on."""
    return runs_as_root()


def arguments(*, blocked: frozenset[str], proxy_server: str | None, user_agent: str | None) -> list[str]:
    """Return the arguments that both drivers start the browser with, in addition to their own."""
    # Containers limit /dev/shm to 64 MB, and a browser that fills it crashes.
    chosen = [*_QUIET, *_AWAKE, "--disable-dev-shm-usage"]
    if needs_no_sandbox():
        chosen.append("--no-sandbox")
    if "image" in blocked:
        chosen.append("--blink-settings=imagesEnabled=false")
    if "font" in blocked:
        chosen.append("--disable-remote-fonts")
    if user_agent is not None:
        chosen.append(f"--user-agent={user_agent}")
    if proxy_server is not None:
        chosen += [
            f"--proxy-server={_server(proxy_server)}",
            # Send requests to loopback addresses through the proxy as well; by default browsers exclude them.
            "--proxy-bypass-list=<-loopback>",
            # Otherwise WebRTC reveals this machine's own address to the site.
            "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        ]
    return chosen


def _server(proxy: str) -> str:
    """Return the proxy in the form browsers read. A browser ignores a proxy it cannot read and connects directly."""
    try:
        parts = urlsplit(checked_proxy(proxy).url)
    except ValueError as error:
        raise SettingsError(f"The browser's proxy {error}. Write it as http://address:port.") from error
    # Browsers always let a SOCKS5 proxy resolve names, and do not know the scheme `socks5h`.
    return f"{parts.scheme.lower().removesuffix('h')}://{parts.netloc}"
