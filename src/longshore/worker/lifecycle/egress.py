"""The egress guard: whether this machine goes out to the internet the way it must, most often through a VPN.

Three things can be asked for, and each that is must hold: a network interface that is up, a public address within
allowed ranges, a public address outside of forbidden ones (the line at home). The public address is what a check URL
answers. A check that cannot be made counts as failed: a guard that lets work begin when in doubt guards nothing.
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
"""For one question to the check URL. It is asked twice before the check counts as failed."""
NO_CHECK = (
    "A VPN is required (vpn), and nothing says how to check for it: it is not checked.",
    "Set egress_interface, or egress_check_url with egress_allowed or egress_forbidden; or set vpn to false.",
)
"""What there is to say, and what to do about it, where a required VPN cannot be checked."""
NOBODY_ASKED = "No VPN is checked for: no egress setting says how."
"""All there is to say where it is required by default only."""
_LONGEST_ANSWER = 4096

log = structlog.get_logger()


class Egress(msgspec.Struct, frozen=True, kw_only=True):
    """What is required of the way out. Nothing is, unless a VPN is required."""

    required: bool
    chosen: bool = True
    """Whether a person chose that, by `vpn` or by a profile, rather than left it at what it is by default."""
    interface: str = ""
    """The interface that must be up."""
    allowed: tuple[Network, ...] = ()
    """Where the public address must be; anywhere where this is empty."""
    forbidden: tuple[Network, ...] = ()
    """Where it must not be."""
    check_url: str = ""
    """Answers with the public address it sees, as text or as JSON with an `ip`."""
    every: timedelta = timedelta(seconds=60)

    @classmethod
    def of(cls, settings: Settings) -> Egress:
        """What the settings ask for. `SettingsError` where a VPN is required and they cannot be meant as they stand."""
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
        """Whether anything says how to check."""
        return bool(self.interface or self.check_url)


class EgressGuard:
    """The gate that is closed while the machine's way out is not as it must be.

    Where nothing says how to check that, it says so once and stays open; it warns where the VPN was asked for.
    """

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._said = False

    @property
    def every(self) -> timedelta:
        return self._egress.every

    async def closed(self) -> str | None:
        if not self._egress.checkable:
            if not self._said and self._egress.chosen:
                log.warning(" ".join(NO_CHECK))
            elif not self._said:
                log.info(NOBODY_ASKED)
            self._said = True
            return None
        fault = await fault_of(self._egress)
        return None if fault is None else f"the VPN check fails: {fault}"


def guard(settings: Settings) -> EgressGuard | None:
    """The guard that the settings ask for; None where they require no VPN."""
    egress = Egress.of(settings)
    return EgressGuard(egress) if egress.required else None


async def fault_of(egress: Egress) -> str | None:
    """What is wrong with the way out now, or None. Everything that is asked for is checked, nothing else."""
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
    """The address that the check URL sees us under."""
    try:
        return await _ask(url)
    except _CheckError:
        # One lost packet is no lost VPN.
        return await _ask(url)


def networks(name: str, text: str | None) -> tuple[Network, ...]:
    """The ranges of a comma-separated setting; a lone address is a range of one. `SettingsError` names the setting."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    try:
        return tuple(ipaddress.ip_network(part, strict=False) for part in parts)
    except ValueError as error:
        raise SettingsError(
            f"{name}: {error}. It takes addresses and ranges, separated by commas, such as 203.0.113.7,10.8.0.0/16."
        ) from error


class _CheckError(Exception):
    """The check URL did not do its part."""


async def _ask(url: str) -> Address:
    # A session of its own each time, closed at once: a connection kept from before would still go the old way.
    import aiohttp

    shown = mask_url(url)
    timeout = aiohttp.ClientTimeout(total=DEADLINE.total_seconds())
    try:
        # Without `trust_env` no proxy of the environment comes in between.
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            status, body = response.status, b""
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > _LONGEST_ANSWER:
                    break
    except TimeoutError as error:
        raise _CheckError(f"{shown} did not answer within {DEADLINE.total_seconds():.0f} s") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise _CheckError(f"{shown} cannot be asked: {mask_urls(str(error)) or type(error).__name__}") from error
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
