"""A private Tor network on loopback: three authorities and three exits, each exit with an address of its own.

It takes half a minute to agree on who is there, so one network serves all processes of a test run:
`private_network` starts it for whoever comes first and stops it after whoever goes last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
from tests.services.postgres import ServiceMissingError, free_port
from tests.waiting import wait_until

MISSING = "No tor was found. Fix: install it (Debian: apt-get install tor)"
EXITS = ("127.0.0.61", "127.0.0.62", "127.0.0.63")
"""Their own addresses in the network, which also name them."""

_AUTHORITIES = ("127.0.0.51", "127.0.0.52", "127.0.0.53")
_PATIENCE_SECONDS = 240

_SHARED = """
TestingTorNetwork 1
AssumeReachable 1
PathsNeededToBuildCircuits {paths}
"""
_RELAYS_KNOW, _CLIENTS_KNOW = "0.67", "0.95"
"""Which share of all paths must be known: a client that began with fewer exits would always come out of the same."""
_RELAY = """
SocksPort 0
# A child of nobody: whoever started it may end before those who still use it.
RunAsDaemon 1
PidFile {folder}/pid
ShutdownWaitLength 0
PublishServerDescriptor 1
Log notice file {folder}/log
DataDirectory {folder}
Nickname {name}
Address {address}
ORPort {address}:{or_port} IPv4Only
OutboundBindAddress {address}
__OwningControllerProcess {owner}
"""
_AUTHORITY = """
DirPort {address}:{dir_port}
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
ContactInfo nobody@example.com
TestingV3AuthInitialVotingInterval 10
TestingV3AuthInitialVoteDelay 2
TestingV3AuthInitialDistDelay 2
V3AuthVotingInterval 20
V3AuthVoteDelay 4
V3AuthDistDelay 4
# Only authorities are guards, so that a client's guard never is the exit it would else have come out of.
# An exit that is a guard, too, is hardly ever used as an exit beside one that is not, so no exit may become one.
TestingDirAuthVoteGuard {guards}
TestingDirAuthVoteGuardIsStrict 1
TestingDirAuthVoteExit *
TestingDirAuthVoteHSDir *
ExitPolicy reject *:*
# Without measurements clients choose exits by the traffic that each has seen, so the first one used gets all of it.
V3BandwidthsFile {bandwidths}
"""
_EXIT = """
ExitRelay 1
ExitPolicyRejectPrivate 0
ExitPolicy accept *:*
"""


class TorNetwork(msgspec.Struct):
    """What a client needs to know of a network that runs."""

    torrc: str
    """Tor's configuration for a client of this network."""
    pids: list[int]
    exits: list[int]
    """The processes of the exits, in the order of `EXITS`."""
    users: int = 0


def find_programs() -> tuple[str, str]:
    """`tor` and `tor-gencert`."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    tor, gencert = shutil.which("tor", path=path), shutil.which("tor-gencert", path=path)
    if tor is None or gencert is None:
        raise ServiceMissingError(MISSING)
    return tor, gencert


def exit_of(network: TorNetwork, port: int) -> str:
    """The exit whose process holds the local port from which a visitor came.

    Towards loopback Tor does not bind its own address, so a site on loopback sees all exits come from 127.0.0.1.
    """
    for address, pid in zip(EXITS, network.exits, strict=True):
        connections = psutil.Process(pid).net_connections("tcp4")
        if any(connection.laddr.port == port for connection in connections if connection.raddr):
            return address
    return "not an exit"


@contextlib.contextmanager
def private_network(folder: Path, owner: int) -> Iterator[TorNetwork]:
    """The network in `folder`, shared by all who name it. Should nobody stop it, it ends with the process `owner`."""
    programs = find_programs()
    folder.mkdir(exist_ok=True)
    record = folder / "network.json"
    with _one_at_a_time(folder):
        network = msgspec.json.decode(record.read_bytes(), type=TorNetwork) if record.exists() else None
        if network is None:
            network = start_network(folder, owner, *programs)
        network.users += 1
        record.write_bytes(msgspec.json.encode(network))
    try:
        yield network
    finally:
        with _one_at_a_time(folder):
            network = msgspec.json.decode(record.read_bytes(), type=TorNetwork)
            network.users -= 1
            record.write_bytes(msgspec.json.encode(network))
            if network.users == 0:
                record.unlink()
                stop_network(network.pids)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def start_network(folder: Path, owner: int, tor: str, gencert: str) -> TorNetwork:
    """Start it anew, and wait until everyone in it knows all exits."""
    place = folder / f"{time.time_ns()}"
    place.mkdir()
    relays = [
        _Relay(place / name, name, address)
        for kind, addresses in (("authority", _AUTHORITIES), ("exit", EXITS))
        for name, address in ((f"{kind}{number}", address) for number, address in enumerate(addresses, 1))
    ]
    authorities, exits = relays[:3], relays[3:]
    for relay in authorities:
        relay.make_authority_keys(gencert)
    for relay in relays:
        relay.make_fingerprint(tor)
    bandwidths = place / "bandwidths"
    bandwidths.write_text(
        f"{int(time.time())}\n"
        + "".join(f"node_id=${relay.fingerprint} bw=1000 nick={relay.name}\n" for relay in relays)
    )
    known = "".join(f"{relay.line}\n" for relay in authorities)
    shared = _SHARED.format(paths=_RELAYS_KNOW) + known
    guards = ",".join(f"${relay.fingerprint}" for relay in authorities)
    for relay in relays:
        role = _AUTHORITY if relay in authorities else _EXIT
        facts = {"owner": owner, "guards": guards, "bandwidths": bandwidths, **relay.facts}
        relay.torrc.write_text(shared + (_RELAY + role).format(**facts))
    pids: list[int] = []
    try:
        pids.extend(relay.start(tor) for relay in relays)
        _wait_until_ready(authorities, exits, pids)
    except BaseException:
        stop_network(pids)
        raise
    client = place / "client.torrc"
    client.write_text(_SHARED.format(paths=_CLIENTS_KNOW) + known)
    return TorNetwork(str(client), pids, exits=pids[len(authorities) :])


def stop_network(pids: list[int]) -> None:
    """End its processes and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(lives(pid) for pid in pids))


def lives(pid: int) -> bool:
    """Whether a process runs. One that has ended and that nobody has asked about does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class _Relay:
    def __init__(self, folder: Path, name: str, address: str) -> None:
        self.folder, self.name, self.address = folder, name, address
        self.or_port, self.dir_port = free_port(), free_port()
        self.torrc = folder.with_suffix(".torrc")
        self.fingerprint = self.identity = ""
        folder.mkdir(mode=0o700)

    @property
    def facts(self) -> dict[str, object]:
        return {
            "folder": self.folder,
            "name": self.name,
            "address": self.address,
            "or_port": self.or_port,
            "dir_port": self.dir_port,
        }

    @property
    def line(self) -> str:
        return (
            f"DirAuthority {self.name} orport={self.or_port} v3ident={self.identity} "
            f"{self.address}:{self.dir_port} {self.fingerprint}"
        )

    def make_authority_keys(self, gencert: str) -> None:
        """Make the identity of an authority, which all others must be told before they start."""
        keys = self.folder / "keys"
        keys.mkdir(mode=0o700)
        subprocess.run(
            [
                gencert,
                "--create-identity-key",
                "--passphrase-fd",
                "0",
                "-m",
                "12",
                "-a",
                f"{self.address}:{self.dir_port}",
            ],
            input=b"low water\n",
            cwd=keys,
            check=True,
            capture_output=True,
        )
        certificate = (keys / "authority_certificate").read_text()
        self.identity = _found(r"^fingerprint (\w+)$", certificate)

    def make_fingerprint(self, tor: str) -> None:
        """Make the keys of a relay and learn its fingerprint before it starts."""
        self.torrc.write_text(f"DataDirectory {self.folder}\nNickname {self.name}\nORPort 1\nAddress {self.address}\n")
        told = subprocess.run(
            [
                tor,
                "--list-fingerprint",
                "-f",
                str(self.torrc),
                "--DirAuthority",
                f"any 127.0.0.1:1 {'f' * 40}",
                "--quiet",
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        self.fingerprint = _found(rf"^{self.name} (.+)$", told.stdout).replace(" ", "")

    def says(self, words: str) -> bool:
        return words in (self.folder / "log").read_text()

    def start(self, tor: str) -> int:
        subprocess.run([tor, "-f", str(self.torrc), "--quiet"], check=True, stdin=subprocess.DEVNULL)
        file = self.folder / "pid"
        wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, f"{pattern} is not in: {text}"
    return match[1]


def _wait_until_ready(authorities: list[_Relay], exits: list[_Relay], pids: list[int]) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not (
        all(_knows(authority, exits) for authority in authorities)
        # A relay that does not know the others yet refuses what clients already ask of it.
        and all(relay.says("Bootstrapped 100%") for relay in (*authorities, *exits))
    ):
        if time.monotonic() > until or not all(lives(pid) for pid in pids):
            logs = "\n".join((relay.folder / "log").read_text()[-2000:] for relay in (*authorities, *exits))
            raise RuntimeError(f"The private Tor network does not come up.\n{logs}")
        time.sleep(0.2)


def _knows(authority: _Relay, exits: list[_Relay]) -> bool:
    """Whether the consensus of this authority has all exits, as such and running."""
    try:
        url = f"http://{authority.address}:{authority.dir_port}/tor/status-vote/current/consensus"
        with urllib.request.urlopen(url, timeout=5) as answer:
            consensus = answer.read().decode()
    except OSError:
        return False
    flags = dict(re.findall(r"^r (\w+) .*\n(?:[a-r] .*\n)*?^s (.*)$", consensus, re.MULTILINE))
    return all({"Exit", "Running", "Valid"} <= set(flags.get(relay.name, "").split()) for relay in exits)
