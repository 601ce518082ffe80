"""Checks of what lies outside: the queue, the network, the VPN."""

from __future__ import annotations

import asyncio
import importlib
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from longshore.errors import QueueUnavailableError
from longshore.extensions.find import find
from longshore.extensions.rejected import KeepsRejected
from longshore.fleet.checks.finding import CheckContext, CheckVerdict, Finding, cause_and_fix, known
from longshore.media import exists, full_url, open_queue, scheme_of
from longshore.queue import totals
from longshore.system import machine
from longshore.url import mask_url
from longshore.worker.lifecycle.egress import NO_CHECK, Egress, fault_of

CONNECT_SECONDS = 5.0

# Where a queue is made out of nothing; what is not there yet is no fault.
_IN_FILES = {"sqlite": "longshore.media.sqlite.location", "dir": "longshore.media.directory.location"}
_PORTS = {"postgresql": 5432, "postgres": 5432, "git+https": 443, "git+http": 80, "http": 80, "https": 443}
_A_NAME = "example.com"


async def check_queue(scene: CheckContext) -> Finding:
    """The queue answers, and its schema is up to date."""
    name, settings = "queue", known(scene)
    url = full_url(settings.queue)
    shown, source = mask_url(url), settings.source("queue")
    if scheme_of(url) == "memory":
        what = "A memory:// queue lives inside one program, and several processes cannot share it."
        return Finding(name, CheckVerdict.FAIL, what, "Name a file: --queue sqlite:///jobs.db")
    # In a thread: a folder on a server that is gone makes whoever looks into it wait without end.
    if (path := file_of(url)) is not None and (above := await asyncio.to_thread(nearest, path)) != path.absolute():
        if os.access(above, os.W_OK):
            return Finding(name, CheckVerdict.OK, f"{shown} is not there yet; the first `submit` makes it.")
        what = f"{shown} is not there, and cannot be made: {above} may not be written to."
        return Finding(name, CheckVerdict.FAIL, what, f"Allow it, or name another place; {source} names this one.")
    try:
        if not await exists(url):
            return Finding(name, CheckVerdict.OK, f"{shown} is not there yet; the first `submit` makes it.")
        queue = await open_queue(url)
    except QueueUnavailableError as error:
        what, fix = cause_and_fix(error)
        fix = fix or "See that its server runs and can be reached from here."
        return Finding(name, CheckVerdict.FAIL, what, f"{fix} {source} names it.")
    try:
        count = totals(await queue.stats())
        keeps_rejected = find(queue, KeepsRejected)
        rejects = None if keeps_rejected is None else await keeps_rejected.rejected()
    finally:
        await queue.close()
    if rejects is not None and rejects.count:
        what = f"{shown} answers, and has set {rejects.count:,} files aside, which were damaged or did not belong."
        fix = f"See what they are in {rejects.where}, submit again what was a job, and remove them there."
        return Finding(name, CheckVerdict.WARN, what, fix)
    return Finding(name, CheckVerdict.OK, f"{shown} answers: {count.remaining:,} jobs to do, {count.total:,} in all.")


async def check_vpn(scene: CheckContext) -> Finding:
    """The machine goes out through its VPN, where one is required."""
    name, settings = "vpn", known(scene)
    egress = Egress.of(settings)
    if not egress.required:
        return Finding(name, CheckVerdict.OK, f"None is required (vpn = false, from {settings.source('vpn')}).")
    if not egress.checkable:
        return Finding(name, CheckVerdict.WARN, *NO_CHECK)
    fault = await fault_of(egress)
    if fault is None:
        return Finding(name, CheckVerdict.OK, "The way out is as required.")
    what = f"A VPN is required, and its check fails: {fault}."
    return Finding(name, CheckVerdict.FAIL, what, "Connect the VPN, or correct the egress settings.")


async def check_network(scene: CheckContext) -> Finding:
    """The servers that the settings name can be found and reached; without any, names can be resolved at all."""
    name, settings = "network", known(scene)
    if not machine.online():
        what = "No network interface but the loopback is up."
        return Finding(name, CheckVerdict.WARN, what, "Connect this machine, unless all it needs is on it.")
    url = full_url(settings.queue)
    # Where a password is torn by a slash, the host would be a part of it.
    server = urlsplit(mask_url(url))
    # A name in an ssh configuration or behind a proxy need not be known here: only this one is certain to fail.
    certain = scheme_of(url) in ("postgresql", "postgres")
    with suppress(ValueError):
        port = server.port or _PORTS.get(scheme_of(url))
        if server.hostname and port and "," not in server.netloc:
            fault = await _unreachable(server.hostname, port)
            if fault is None:
                return Finding(name, CheckVerdict.OK, f"{server.hostname} answers on port {port}.")
            fix = "Check its name, that it runs, and that no firewall is in between."
            return Finding(name, CheckVerdict.FAIL if certain else CheckVerdict.WARN, fault, fix)
    if fault := await _unresolved(_A_NAME):
        return Finding(name, CheckVerdict.WARN, fault, "Check the connection, and the name server in its settings.")
    return Finding(name, CheckVerdict.OK, "This machine is connected, and names are resolved.")


def file_of(url: str) -> Path | None:
    """Where a queue that is made of files has them; None for any other."""
    module = _IN_FILES.get(scheme_of(url))
    return None if module is None else Path(importlib.import_module(module).path_of(url))


def nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


async def _unresolved(host: str) -> str | None:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):  # a timeout is an OSError
        return f"The name {host} cannot be resolved."
    return None


async def _unreachable(host: str, port: int) -> str | None:
    if fault := await _unresolved(host):
        return fault
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"{host} does not answer on port {port} within {CONNECT_SECONDS:.0f} s."
    except OSError:
        return f"{host} accepts no connection on port {port}."
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return None
