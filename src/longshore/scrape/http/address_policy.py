"""The addresses that a fetch may connect to.

Pages choose URLs: by links, by redirects, by scripts in a browser. A worker often stands in a network in which a
request to an internal address does harm or returns secrets. So an address that is not public is refused, unless

- the host is the job's own: one that the submitted job names, or the first it asks if it names none (`OwnHosts`), or
- the user allows it (`LONGSHORE_PRIVATE_HOSTS`).

The metadata services of clouds, which hand out credentials, are always refused. The judged address is the one that is
connected to: a name is judged after it was resolved, at every redirect, for robots.txt as well. Through a proxy or Tor
the proxy resolves names; then only addresses that the URL itself contains are judged.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from longshore.errors import ProcessingError, SettingsError

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",  # Amazon, Google, Azure, Oracle, DigitalOcean, OpenStack
            "169.254.170.2",  # Amazon's containers
            "169.254.170.23",
            "168.63.129.16",  # Azure's host, a public address
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "fd00:ec2::254",  # Amazon
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
        ),
    )
)
# `is_global` differs between releases of Python; these are never public.
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "224.0.0.0/3",
            "::/127",
            "64:ff9b:1::/48",
            "fc00::/7",
            "fe80::/9",
            "ff00::/8",
        ),
    )
)
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
# Forms that the resolver of the system reads as an IPv4 address: 127.1, 0x7f000001, 017700000001, 2130706433.
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+)){0,3}\.?\Z", re.IGNORECASE)
_LOCAL_NAME = re.compile(r"(?:.*\.)?localhost\.?\Z", re.IGNORECASE)
_REMEMBERED = 10_000
_ALLOW = "To allow it, name it in LONGSHORE_PRIVATE_HOSTS."


class PrivateAddressError(ProcessingError):
    """The address is not public, and the job may not connect to it. Not retried: it would be refused again."""

    retryable = False

    def __init__(self, message: str, host: str = "") -> None:
        super().__init__(message)
        self.host = host
        """The refused host, as `host_of` returns it."""

    def __reduce__(self) -> tuple[type[PrivateAddressError], tuple[str, str]]:
        return PrivateAddressError, (str(self), self.host)


class OwnHosts:
    """The hosts of one job, which it may ask even on a private network."""

    __slots__ = ("_confirmed", "_first", "_hosts")

    def __init__(self, hosts: Iterable[str] = (), confirmed: Callable[[str], Awaitable[bool]] | None = None) -> None:
        """Take the hosts that the job names. `confirmed` is asked in addition if a page may have chosen them."""
        self._hosts = frozenset(hosts)
        self._first = ""
        self._confirmed = confirmed

    def begin(self, host: str) -> None:
        """Take a host that the job asks for, if the job names none and has asked for none before."""
        if not self._hosts and not self._first:
            self._first = host

    async def include(self, host: str) -> bool:
        """Return whether `host` is one of them."""
        if not host or (host != self._first and host not in self._hosts):
            return False
        return self._confirmed is None or await self._confirmed(host)


class AddressPolicy:
    """The judgement of addresses, for one process."""

    def __init__(self, private_hosts: Iterable[str] = ()) -> None:
        """Take names, addresses, networks (`10.0.0.0/8`) and `name:port` that are allowed."""
        self._names: set[str] = set()
        self._networks: list[_Network] = []
        for entry in private_hosts:
            if "/" in entry:
                try:
                    self._networks.append(ipaddress.ip_network(entry, strict=False))
                except ValueError as error:
                    raise SettingsError(
                        f"LONGSHORE_PRIVATE_HOSTS cannot contain '{entry}': {error}. "
                        "Write names, addresses or networks, separated by commas: intranet.example, 10.0.0.0/8."
                    ) from error
            else:
                self._names.add(entry.lower())
        self._once_public: dict[str, None] = {}

    def permitted(self, host: str, addresses: Iterable[str], *, own: bool) -> list[str]:
        """Return those addresses of `host` that may be connected to. Raise `PrivateAddressError` if there is none."""
        refused, private, public = "it has no address", list[str](), list[str]()
        for text in addresses:
            address = _unwrapped(ipaddress.ip_address(text.partition("%")[0]))
            if address in _METADATA:
                refused = f"{host} ({text}) is the metadata service of a cloud, which is never asked."
            elif is_public(address):
                public.append(text)
            elif self._allowed(host, address) or (own and host not in self._once_public):
                private.append(text)
            elif own:
                refused = f"{host} was at a public address before and is now at {text}, on a private network. {_ALLOW}"
            else:
                refused = f"{host} is on a private network ({text}), and no submitted job names it. {_ALLOW}"
        if public and not private:
            self._remember(host)
        if public or private:
            return public + private
        raise PrivateAddressError(refused, host)

    def check_text(self, host: str, *, own: bool) -> None:
        """Judge a host by its text alone, for a request whose proxy resolves names."""
        name = bare_name(host)
        address = literal_address(name)
        if address is not None:
            self.permitted(host, [str(address)], own=own)
        elif _LOCAL_NAME.match(name):
            self.permitted(host, ["127.0.0.1"], own=own)

    def _allowed(self, host: str, address: _Address) -> bool:
        if host in self._names or bare_name(host) in self._names or str(address) in self._names:
            return True
        return any(address in network for network in self._networks)

    def _remember(self, host: str) -> None:
        # A name that moves from a public to a private address is how a page gets past a check of names.
        if len(self._once_public) >= _REMEMBERED:
            del self._once_public[next(iter(self._once_public))]
        self._once_public[host] = None


def is_public(address: _Address) -> bool:
    """Return whether an address belongs to the public internet."""
    return address.is_global and not any(address in network for network in _PRIVATE)


def literal_address(name: str) -> _Address | None:
    """Return the address that a host name spells, in any form that a resolver reads; None for another name."""
    text = name.strip("[]").partition("%")[0]
    try:
        if ":" in text:
            return _unwrapped(ipaddress.IPv6Address(text))
        return ipaddress.IPv4Address(socket.inet_aton(text.rstrip("."))) if _NUMERIC.match(text) else None
    except (ValueError, OSError):
        return None


def names_an_address(host: str) -> bool:
    """Return whether `AddressPolicy.check_text` can judge this host: it is an address, or a name of this machine."""
    name = bare_name(host)
    return ":" in name or _NUMERIC.match(name) is not None or _LOCAL_NAME.match(name) is not None


def bare_name(host: str) -> str:
    """Return a host without its port and without the brackets of an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    # `host_of` returns IPv6 addresses without brackets.
    return host.partition(":")[0] if host.count(":") == 1 else host


def _unwrapped(address: _Address) -> _Address:
    """Return the IPv4 address inside an IPv6 address that stands for one; any other address unchanged."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _TRANSLATED or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
