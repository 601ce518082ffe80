"""Hosts that share no network but the links between them: network namespaces of Linux, which need root."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.services.needing import needed
from tests.services.postgres import ServiceMissingError

_CLONE_NEWNET = 0x40000000
_NAMED = Path("/run/netns")


class Hosts:
    """A centre and hosts that are linked to it, each with a network of its own. Processes share everything else."""

    def __init__(self, *names: str) -> None:
        self._mark = secrets.token_hex(3)
        self._names = names
        self.centre = f"ls{self._mark}"

    def make(self) -> None:
        """Make the networks. Raise `ServiceMissingError` if this machine does not let us."""
        for namespace in (self.centre, *map(self.namespace, self._names)):
            _ip("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "lo", "up")
        for number, name in enumerate(self._names, 1):
            near, far = self._near(name), f"f{self._mark}{number}"
            peer = ("type", "veth", "peer", "name", far, "netns", self.namespace(name))
            _ip("-n", self.centre, "link", "add", near, *peer)
            _ip("-n", self.centre, "address", "add", f"{self.address_for(name)}/24", "dev", near)
            _ip("-n", self.namespace(name), "address", "add", f"10.77.{number}.2/24", "dev", far)
            _ip("-n", self.centre, "link", "set", near, "up")
            _ip("-n", self.namespace(name), "link", "set", far, "up")

    def namespace(self, name: str) -> str:
        return f"{self.centre}{name}"

    def address_for(self, name: str) -> str:
        """The address under which a host reaches the centre."""
        return f"10.77.{self._names.index(name) + 1}.1"

    def cut(self, name: str) -> None:
        """Cut the link of a host: no packet passes, and no connection is closed."""
        _ip("-n", self.centre, "link", "set", self._near(name), "down")

    def heal(self, name: str) -> None:
        _ip("-n", self.centre, "link", "set", self._near(name), "up")

    def remove(self) -> None:
        for namespace in (self.centre, *map(self.namespace, self._names)):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)

    def _near(self, name: str) -> str:
        return f"n{self._mark}{self._names.index(name) + 1}"


@contextmanager
def hosts(*names: str) -> Iterator[Hosts]:
    """Make a centre and these hosts. Without root, or not on Linux, skip the test."""
    if sys.platform != "linux":
        pytest.skip("Network namespaces are there on Linux only.")
    if os.geteuid() != 0:
        pytest.skip("Network namespaces need root. Fix: sudo make test")
    with needed():
        if shutil.which("ip") is None:
            raise ServiceMissingError("ip is not installed. Fix: make services")
    made = Hosts(*names)
    try:
        with needed():
            made.make()
        yield made
    finally:
        made.remove()


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Within the block, this thread, and every process that it starts, has the network of the namespace."""
    if sys.platform != "linux":
        raise NotImplementedError
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(number: int) -> None:
        if libc.setns(number, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    with ExitStack() as stack:
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        stack.callback(os.close, own)
        target = os.open(_NAMED / namespace, os.O_RDONLY)
        stack.callback(os.close, target)
        enter(target)
        stack.callback(enter, own)
        yield


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ServiceMissingError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}. Namespaces need full root.")
