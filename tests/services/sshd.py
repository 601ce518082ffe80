"""A real OpenSSH server on a port of its own, with a key for this user and nobody else's configuration."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.services.postgres import ServiceMissingError, free_port

MISSING = "No sshd was found. Fix: install it (Debian: apt-get install openssh-server)"


class SshServer:
    """Runs for the length of a `with` block. `bin` is a folder for PATH, whose `ssh` knows this server and its key."""

    def __init__(self, folder: Path) -> None:
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
        server, client = shutil.which("sshd", path=path), shutil.which("ssh")
        if server is None or client is None:
            raise ServiceMissingError(MISSING)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # without it a server of root's does not start
        self.port = free_port()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.known, self.key = folder / "known_hosts", folder / "key"
        for key in (self.key, folder / "host"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        self.known.write_text(f"[127.0.0.1]:{self.port} {(folder / 'host.pub').read_text()}")
        options = {
            "Port": self.port,
            "ListenAddress": "127.0.0.1",
            "HostKey": folder / "host",
            "AuthorizedKeysFile": folder / "key.pub",
            "PermitRootLogin": "prohibit-password",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "StrictModes": "no",
            "UsePAM": "no",
            "PidFile": "none",
        }
        (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
        own = [f"-oUserKnownHostsFile={self.known}", "-oGlobalKnownHostsFile=none", f"-i{self.key}"]
        program = shlex.join([client, "-Fnone", *own, "-oIdentitiesOnly=yes", "-oIdentityAgent=none"])
        wrapper = self.bin / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        wrapper.chmod(0o755)
        self._log = (folder / "sshd.log").open("wb")
        self._process = subprocess.Popen(
            [server, "-D", "-e", "-f", str(folder / "sshd_config")], stdout=self._log, stderr=self._log
        )

    def url(self, repository: Path) -> str:
        """The queue URL of a repository on this machine, by ssh."""
        return f"git+ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repository}"

    def __enter__(self) -> Self:
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    self.__exit__(None, None, None)
                    raise
                time.sleep(0.02)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()
