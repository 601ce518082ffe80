"""A real PgBouncer in transaction mode in front of a PostgreSQL, with fewer server connections than clients."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.services.postgres import PASSWORD, SUPERUSER, PostgresServer, ServiceMissingError, free_port, unprivileged

MISSING = "No pgbouncer was found. Fix: install it (Debian: apt-get install pgbouncer)"


class PgBouncer:
    """Runs for the length of a `with` block."""

    def __init__(self, server: PostgresServer, *, pool_size: int = 3) -> None:
        binary = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if binary is None:
            raise ServiceMissingError(MISSING)
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="longshore-pgbouncer-"))
        users = self._folder / "users"
        users.write_text(f'"{SUPERUSER}" "{PASSWORD}"\n')
        ini = self._folder / "pgbouncer.ini"
        ini.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = scram-sha-256\nauth_file = {users}\npool_mode = transaction\n"
            f"default_pool_size = {pool_size}\nmax_client_conn = 200\nserver_round_robin = 1\n"
        )
        user = unprivileged()
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        self._process = subprocess.Popen(
            [binary, "-q", str(ini)],
            user=user,
            extra_groups=[] if user is not None else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(10)
        shutil.rmtree(self._folder)
