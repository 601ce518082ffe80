"""Podman on a machine that has no systemd, and the images that are built without a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path("/var/tmp/longshore-containers")
"""The images, kept between two runs, and the configuration. It can be removed at any time."""
BASE = "localhost/longshore-test-base"
_PROGRAMS = {
    "podman": "podman",
    "runc": "runc",
    "debootstrap": "debootstrap",
    "netavark": "netavark",
    "aardvark-dns": "aardvark-dns",
}
"""program -> the Debian package that has it."""
_PATH = "/usr/sbin:/sbin:/usr/lib/podman:/usr/libexec/podman"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,ca-certificates"
_CONTAINERS = """[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
"""
_STORAGE = """[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


def missing() -> list[str]:
    """Return what this machine lacks, each with its remedy."""
    if sys.platform != "linux":
        return ["Containers are tried on Linux only."]
    path = f"{os.environ.get('PATH', '')}:{_PATH}"
    packages = [package for program, package in _PROGRAMS.items() if shutil.which(program, path=path) is None]
    found = [f"These programs are missing. Fix: apt-get install {' '.join(packages)}"] if packages else []
    if os.geteuid() != 0:
        found.append("Networks of containers and debootstrap need root. Fix: sudo make containers")
    return found


class Podman:
    """Runs podman and podman-compose with a storage and a configuration of their own."""

    def __init__(self) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "containers.conf").write_text(_CONTAINERS)
        (FOLDER / "storage.conf").write_text(_STORAGE.format(folder=FOLDER))
        self._environment = os.environ | {
            "CONTAINERS_CONF": str(FOLDER / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(FOLDER / "storage.conf"),
        }

    def __call__(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        """Run podman, and return what it prints."""
        return self._run(["podman", *arguments], {}, check=check, stdin=stdin)

    def compose(self, *arguments: str, variables: Mapping[str, str]) -> str:
        """Run podman-compose on the file of `deploy` and our override, and return what it prints."""
        program = str(Path(sys.executable).with_name("podman-compose"))
        files = ["-f", str(ROOT / "deploy" / "compose.yaml"), "-f", str(ROOT / "tests" / "containers" / "compose.yaml")]
        return self._run([program, *files, *arguments], variables, check=True)

    def succeeds(self, *arguments: str) -> bool:
        """Run podman, and return whether its exit code is 0."""
        done = subprocess.run(["podman", *arguments], env=self._environment, capture_output=True, check=False)
        return done.returncode == 0

    def build_images(self) -> None:
        """Build the base from Debian's packages, once, and the images on top of it."""
        if not self.succeeds("image", "exists", BASE):
            self._build_base()
        self.build("longshore", ROOT, ROOT / "deploy" / "Dockerfile", f"PYTHON_IMAGE={BASE}")
        for name in ("postgres", "prometheus"):
            folder = ROOT / "tests" / "containers" / name
            self.build(f"localhost/longshore-test-{name}", folder, folder / "Dockerfile", f"BASE={BASE}")

    def build(self, tag: str, context: Path, file: Path, *arguments: str) -> None:
        """Build an image. The certificates of this machine are those that its package indexes are trusted by."""
        given = [word for argument in arguments for word in ("--build-arg", argument)]
        certificates = [f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro"] if _CERTIFICATES.is_file() else []
        options = ["--format=docker", "--network=host", *certificates, *given, f"--tag={tag}", f"--file={file}"]
        self("build", *options, str(context))

    def _build_base(self) -> None:
        folder = FOLDER / "base"
        shutil.rmtree(folder, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(folder)]
        self._run(command, {"PATH": f"{os.environ.get('PATH', '')}:{_PATH}"}, check=True)
        archive = FOLDER / "base.tar"
        self._run(["tar", "-C", str(folder), "-cf", str(archive), "."], {}, check=True)
        self("import", str(archive), f"{BASE}:latest")
        archive.unlink()
        shutil.rmtree(folder)

    def _run(self, command: list[str], variables: Mapping[str, str], *, check: bool, stdin: str | None = None) -> str:
        done = subprocess.run(
            command,
            env={**self._environment, **variables},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if check and done.returncode != 0:
            raise SystemExit(
                f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )
        return done.stdout
