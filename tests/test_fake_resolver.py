"""No test asks a name server, in its own process or in one that it starts."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest


def test_only_names_of_this_machine_are_resolved() -> None:
    assert socket.getaddrinfo("localhost", 80)
    assert socket.getaddrinfo("127.0.0.1", 80)
    assert {found[4][0] for found in socket.getaddrinfo("example.com", 80)} == {"127.0.0.1"}
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("example.org", 80)


def test_processes_that_tests_start_ask_no_name_server_either() -> None:
    code = "import socket; socket.getaddrinfo('example.org', 80)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "tests ask no name server" in done.stderr
