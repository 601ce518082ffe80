"""Checks of the queue, the network and the VPN."""

from __future__ import annotations

import asyncio
import importlib
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from longshore.errors import QueueError, QueueUnavailableError
from longshore.extensions.find import find
from longshore.extensions.published_code import SHORT, version_for
from longshore.extensions.rejected import KeepsRejected
from longshore.extensions.shared_state import SharedState
from longshore.fleet.checks.finding import CheckContext, CheckVerdict, Finding, cause_and_fix, known
from longshore.media import exists, full_url, open_queue, scheme_of
from longshore.queue import Queue, totals
from longshore.system import machine
from longshore.url import mask_url
from longshore.worker.lifecycle.egress import NO_CHECK, NO_CHECK_BY_DEFAULT, Egress, fault_of

CONNECT_SECONDS = 5.0

# These queues are created by the first `submit`, so a missing one is no fault.
_IN_FILES = {"sqlite": "longshore.media.sqlite.location", "dir": "longshore.media.directory.location"}
_PORTS = {"postgresql": 5432, "postgres": 5432, "git+https": 443, "git+http": 80, "http": 80, "https": 443}
_A_NAME = "example.com"


async def check_queue(context: CheckContext) -> Finding:
    """Check that the queue answers, and that its schema is up to date."""
    name, settings = "queue", known(context)
    url = full_url(settings.queue)
    shown, source = mask_url(url), settings.source("queue")
    if scheme_of(url) == "memory":
        what = "A memory:// queue lives inside one program, and several processes cannot share it."
        return Finding(name, CheckVerdict.FAIL, what, "Name a file: --queue sqlite:///jobs.db")
    # In a thread: a call to a network drive whose server is gone may block for ever.
    if (path := file_of(url)) is not None and (above := await asyncio.to_thread(nearest, path)) != path.absolute():
        if os.access(above, os.W_OK):
            return Finding(name, CheckVerdict.OK, f"{shown} does not exist yet; the first `submit` creates it.")
        what = f"{shown} does not exist and cannot be created: {above} is not writable."
        return Finding(
            name, CheckVerdict.FAIL, what, f"Make it writable, or choose another location; {source} names this one."
        )
    try:
        if not await exists(url):
            return Finding(name, CheckVerdict.OK, f"{shown} does not exist yet; the first `submit` creates it.")
        queue = await open_queue(url)
    except QueueUnavailableError as error:
        what, fix = cause_and_fix(error)
        fix = fix or "Check that its server runs and can be reached from here."
        return Finding(name, CheckVerdict.FAIL, what, f"{fix} {source} names it.")
    try:
        count = totals(await queue.stats())
        keeps_rejected = find(queue, KeepsRejected)
        rejects = None if keeps_rejected is None else await keeps_rejected.rejected()
        carries = await _published(queue)
    finally:
        await queue.close()
    if rejects is not None and rejects.count:
        what = f"{shown} answers, and has rejected {rejects.count:,} files that were damaged or did not belong to it."
        fix = f"Look at them in {rejects.where}, submit those again that were jobs, and delete them."
        return Finding(name, CheckVerdict.WARN, what, fix)
    what = f"{shown} answers: {count.remaining:,} jobs to do, {count.total:,} in all.{carries}"
    return Finding(name, CheckVerdict.OK, what)


async def _published(queue: Queue) -> str:
    """Return a sentence about the handlers that the queue carries; empty if there are none."""
    state = find(queue, SharedState)
    if state is None:
        return ""
    try:
        found = await version_for(state, None)
    except QueueUnavailableError:
        raise
    except QueueError:
        return ""  # a key that may only read jobs is refused
    return "" if found is None else f" It carries handlers, version {found[:SHORT]}: workers need no FILE."


async def check_vpn(context: CheckContext) -> Finding:
    """Check that the machine uses its VPN if one is required."""
    name, settings = "vpn", known(context)
    egress = Egress.of(settings)
    if not egress.required:
        return Finding(name, CheckVerdict.OK, f"None is required (vpn = false, from {settings.source('vpn')}).")
    if not egress.checkable and not egress.chosen:
        return Finding(name, CheckVerdict.SKIPPED, NO_CHECK_BY_DEFAULT)
    if not egress.checkable:
        return Finding(name, CheckVerdict.WARN, *NO_CHECK)
    fault = await fault_of(egress)
    if fault is None:
        return Finding(name, CheckVerdict.OK, "The machine uses the required VPN.")
    what = f"A VPN is required, and its check fails: {fault}."
    return Finding(name, CheckVerdict.FAIL, what, "Connect the VPN, or correct the egress settings.")


async def check_network(context: CheckContext) -> Finding:
    """Check that the queue's server can be found and reached; without a server, that names can be resolved at all."""
    name, settings = "network", known(context)
    if not machine.online():
        what = "No network interface but the loopback is up."
        return Finding(name, CheckVerdict.WARN, what, "Connect this machine to a network, unless the work needs none.")
    url = full_url(settings.queue)
    # Masked first: in a URL with a slash in the password, the host would be a part of the password.
    server = urlsplit(mask_url(url))
    # Only a database is certain to fail: a git host may be an alias of the ssh configuration, or behind a proxy.
    certain = scheme_of(url) in ("postgresql", "postgres")
    with suppress(ValueError):
        port = server.port or _PORTS.get(scheme_of(url))
        if server.hostname and port and "," not in server.netloc:
            fault = await _unreachable(server.hostname, port)
            if fault is None:
                return Finding(name, CheckVerdict.OK, f"{server.hostname} answers on port {port}.")
            fix = "Check its name, that it runs, and that no firewall blocks it."
            return Finding(name, CheckVerdict.FAIL if certain else CheckVerdict.WARN, fault, fix)
    if fault := await _unresolved(_A_NAME):
        return Finding(name, CheckVerdict.WARN, fault, "Check the connection, and the name server in its settings.")
    return Finding(name, CheckVerdict.OK, "This machine is connected, and names are resolved.")


def file_of(url: str) -> Path | None:
    """Return the path of a queue that is made of files; None for other queues."""
    module = _IN_FILES.get(scheme_of(url))
    return None if module is None else Path(importlib.import_module(module).path_of(url))


def nearest(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
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
