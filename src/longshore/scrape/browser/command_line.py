"""The browser's command line."""

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
"""What the browser calls them where requests are stopped on their way, one by one."""

NEVER_SENT = frozenset({"image", "font"})
"""Those a browser can be told at its start not to ask for at all, which costs nothing and holds in every frame."""

# Nothing of the browser's own on the network: no updates, no reports, no accounts.
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
# A tab nobody looks at works as fast as one in front.
_AWAKE = (
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)


def checked_blocked(blocked: Iterable[str]) -> frozenset[str]:
    """The types to block. Raises `SettingsError` for what is none."""
    wanted = frozenset(blocked)
    if unknown := sorted(wanted.difference(BLOCKABLE)):
        raise SettingsError(f"'{unknown[0]}' cannot be blocked in a browser. Choose of {', '.join(BLOCKABLE)}.")
    return wanted


def needs_no_sandbox() -> bool:
    """Whether the sandbox must be off: it does not work for root, and only there is it given up."""
    return runs_as_root()


def arguments(*, blocked: frozenset[str], proxy_server: str | None, user_agent: str | None) -> list[str]:
    """What both drivers start the browser with, beside what they add themselves."""
    # Containers give /dev/shm 64 MB, and a browser that fills it crashes.
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
            # Everything goes through it, this machine's own addresses too: by themselves browsers leave those out.
            "--proxy-bypass-list=<-loopback>",
            # WebRTC would tell the site the machine's own address.
            "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        ]
    return chosen


def _server(proxy: str) -> str:
    """A proxy as browsers write it. One that they cannot read they would pass over, and go without."""
    try:
        parts = urlsplit(checked_proxy(proxy).url)
    except ValueError as error:
        raise SettingsError(f"A proxy {error}. Write it as http://address:port.") from error
    # Browsers let a SOCKS5 proxy resolve names in any case, and do not know the other way to write it.
    return f"{parts.scheme.lower().removesuffix('h')}://{parts.netloc}"
