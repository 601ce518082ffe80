"""The proxy of the environment: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, as other programs read them.

It is the only way to the network in some companies, so `kit.http` and the browsers use it unless a proxy file or Tor is
set. Sites of this machine are reached directly.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from longshore.errors import SettingsError
from longshore.scrape.proxies.proxy_file import Proxy, checked_proxy

_DEFAULT_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}
_SEPARATOR = re.compile(r"[,\s]+")


class EnvironmentProxies(msgspec.Struct, frozen=True):
    """The proxies of the environment, by the scheme of a URL, and the hosts that are reached without them."""

    by_scheme: Mapping[str, Proxy]
    excepted: tuple[str, ...] = ()
    names: Mapping[str, str] = {}
    """The variable that names the proxy, by the scheme of a URL."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> EnvironmentProxies | None:
        """Return the proxies; None if the environment names none. Raise `SettingsError` if one is not a proxy."""
        found: dict[str, Proxy] = {}
        names: dict[str, str] = {}
        for scheme in ("http", "https"):
            for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
                # In a CGI program, a header of the request can set HTTP_PROXY.
                if name == "HTTP_PROXY" and "REQUEST_METHOD" in environment:
                    continue
                if value := environment.get(name, "").strip():
                    found[scheme], names[scheme] = _proxy(name, value), name
                    break
        if not found:
            return None
        excepted = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
        return cls(found, tuple(entry for entry in _SEPARATOR.split(excepted.lower()) if entry), names)

    def proxy_for(self, url: str) -> Proxy | None:
        """Return the proxy for a URL; None if its host is reached directly."""
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        proxy = self.by_scheme.get(parts.scheme)
        if proxy is None or _is_here(host) or any(_matches(entry, host, port) for entry in self.excepted):
            return None
        return proxy

    def __str__(self) -> str:
        ways: dict[Proxy, list[str]] = {}
        for scheme, proxy in self.by_scheme.items():
            ways.setdefault(proxy, []).append(self.names[scheme])
        shown = " and ".join(f"{proxy} ({', '.join(dict.fromkeys(names))})" for proxy, names in ways.items())
        return shown + (f", except to {', '.join(self.excepted)} (NO_PROXY)" if self.excepted else "")


def _proxy(name: str, value: str) -> Proxy:
    url = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(url)
        if parts.port is None and parts.scheme.lower() in _DEFAULT_PORTS:
            url = f"{url.rstrip('/')}:{_DEFAULT_PORTS[parts.scheme.lower()]}"
        return checked_proxy(url)
    except ValueError as error:
        # Without the value: it may hold a password.
        raise SettingsError(f"The environment variable {name} is not the URL of a proxy: it {error}.") from error


def _is_here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _matches(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY (`*`, a domain, a host with a port, an address, a network) is for a host."""
    if entry == "*":
        return True
    address = _address(host)
    if address is not None:
        try:
            network = ipaddress.ip_network(entry.strip("[]"), strict=False)
        except ValueError:
            network = None
        if network is not None:
            return address in network
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdigit() and (":" not in name or name.startswith("[")):
        if int(digits) != port:
            return False
        entry = name
    domain = entry.strip("[]").removeprefix("*").lstrip(".")
    return bool(domain) and (host == domain or (address is None and host.endswith(f".{domain}")))
