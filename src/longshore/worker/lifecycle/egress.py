"""The egress guard: checks that this machine reaches the internet the required way, most often through a VPN.

The settings can require three things: a network interface that is up, a public address within allowed ranges, a public
address outside of forbidden ranges (such as the home line). All that are set must hold. The public address is the
answer of a check URL. A check that cannot be made counts as failed: a guard must not allow work when in doubt.
"""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import TypeAlias

import msgspec
import psutil
import structlog

from longshore.errors import SettingsError
from longshore.settings import Settings
from longshore.url import mask_url, mask_urls

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

DEADLINE = timedelta(seconds=5)
"""The time limit of one request to the check URL. It is asked twice before the check counts as failed."""
NO_CHECK = (
    "A VPN is required (vpn), and nothing says how to check for it: it is not checked.",
    "Set egress_interface, or egress_check_url with egress_allowed or egress_forbidden; or set vpn to false.",
)
"""The message and the fix if a required VPN cannot be checked."""
NO_CHECK_BY_DEFAULT = "No VPN is checked for: no egress setting says how."
"""The message if the VPN is required only by default."""
_LONGEST_ANSWER = 4096

log = structlog.get_logger()


class Egress(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements on the way to the internet. There are none unless a VPN is required."""

    required: bool
    chosen: bool = True
    """Whether the user required it, by `vpn` or by a profile; False if it is only the default."""
    interface: str = ""
    """The interface that must be up."""
    allowed: tuple[Network, ...] = ()
    """The ranges that the public address must be in; empty allows any address."""
    forbidden: tuple[Network, ...] = ()
    """The ranges that it must not be in."""
    check_url: str = ""
    """Answers with the caller's public address, as text or as JSON with an `ip`."""
    every: timedelta = timedelta(seconds=60)

    @classmethod
    def of(cls, settings: Settings) -> Egress:
        """Return the requirements of the settings. Raises `SettingsError` if a VPN is required and they contradict."""
        if not settings.vpn:
            return cls(required=False)
        allowed = networks("egress_allowed", settings.egress_allowed)
        forbidden = networks("egress_forbidden", settings.egress_forbidden)
        if (allowed or forbidden) and not settings.egress_check_url:
            name = "egress_allowed" if allowed else "egress_forbidden"
            raise SettingsError(
                f"{name} is set and egress_check_url is not, so the public address cannot be known. "
                "Set egress_check_url to an address that answers with yours, such as https://api.ipify.org."
            )
        if settings.egress_check_url and not (allowed or forbidden):
            raise SettingsError(
                "egress_check_url is set, and neither egress_allowed nor egress_forbidden, so nothing says which "
                "public address is right. Set one of them."
            )
        return cls(
            required=True,
            chosen=not settings.sources.keys().isdisjoint({"vpn", "profile"}),
            interface=settings.egress_interface or "",
            allowed=allowed,
            forbidden=forbidden,
            check_url=settings.egress_check_url or "",
            every=timedelta(seconds=settings.egress_every),
        )

    @property
    def checkable(self) -> bool:
        """Whether the settings say how to check."""
        return bool(self.interface or self.check_url)


class EgressGuard:
    """The start gate that is closed while the requirements on the way to the internet do not hold.

    If the settings do not say how to check, it stays open and logs that once; as a warning if the user chose the VPN.
    """

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._logged = False

    @property
    def every(self) -> timedelta:
        return self._egress.every

    async def closed(self) -> str | None:
        if not self._egress.checkable:
            if not self._logged and self._egress.chosen:
                log.warning(" ".join(NO_CHECK))
            elif not self._logged:
                # The VPN is required only by default. `longshore doctor` tells it.
                log.debug(NO_CHECK_BY_DEFAULT)
            self._logged = True
            return None
        fault = await fault_of(self._egress)
        return None if fault is None else f"the VPN check fails: {fault}"


def guard(settings: Settings) -> EgressGuard | None:
    """Return the guard for these settings; None if they require no VPN."""
    egress = Egress.of(settings)
    return EgressGuard(egress) if egress.required else None


async def fault_of(egress: Egress) -> str | None:
    """Return the first requirement that does not hold now, in words; None if all hold."""
    if egress.interface and (fault := _interface_fault(egress.interface)):
        return fault
    if not egress.check_url:
        return None
    try:
        address = await public_address(egress.check_url)
    except _CheckError as error:
        return str(error)
    if any(address in network for network in egress.forbidden):
        return f"the public address is {address}, which egress_forbidden rules out"
    if egress.allowed and not any(address in network for network in egress.allowed):
        return f"the public address is {address}, which is not in egress_allowed ({_listed(egress.allowed)})"
    return None


async def public_address(url: str) -> Address:
    """Return the public address that the check URL answers with."""
    try:
        return await _ask(url)
    except _CheckError:
        # A second try: one lost packet does not mean that the VPN is down.
        return await _ask(url)


def networks(name: str, text: str | None) -> tuple[Network, ...]:
    """Return the ranges of a comma-separated setting; an address is a range of one. Raises `SettingsError`."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    try:
        return tuple(ipaddress.ip_network(part, strict=False) for part in parts)
    except ValueError as error:
        raise SettingsError(
            f"{name}: {error}. It takes addresses and ranges, separated by commas, such as 203.0.113.7,10.8.0.0/16."
        ) from error


class _CheckError(Exception):
    """The check URL gave no usable answer."""


async def _ask(url: str) -> Address:
    # A new session each time: an open connection would still use the old route.
    import aiohttp

    shown = mask_url(url)
    timeout = aiohttp.ClientTimeout(total=DEADLINE.total_seconds())
    try:
        # Without `trust_env`, so that proxies of the environment are not used.
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            status, body = response.status, b""
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > _LONGEST_ANSWER:
                    break
    except TimeoutError as error:
        raise _CheckError(f"{shown} did not answer within {DEADLINE.total_seconds():.0f} s") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise _CheckError(f"{shown} cannot be reached: {mask_urls(str(error)) or type(error).__name__}") from error
    if status >= 400:
        raise _CheckError(f"{shown} answered {status} instead of an address")
    return _address_in(body, shown)


def _address_in(body: bytes, shown: str) -> Address:
    text = body.decode(errors="replace").strip()
    try:
        found = msgspec.json.decode(body, type=_Answer).ip
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = text
    try:
        address = ipaddress.ip_address(found)
    except ValueError as error:
        raise _CheckError(f"{shown} answered with no address: {text[:60]!r}") from error
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class _Answer(msgspec.Struct):
    ip: str


def _interface_fault(name: str) -> str | None:
    there = psutil.net_if_stats()
    if name not in there:
        return f"there is no network interface {name} (there are: {', '.join(sorted(there))})"
    return None if there[name].isup else f"the network interface {name} is down"


def _listed(ranges: tuple[Network, ...]) -> str:
    shown = ", ".join(str(network) for network in ranges[:3])
    return f"{shown} and {len(ranges) - 3} more" if len(ranges) > 3 else shown
