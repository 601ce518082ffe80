"""The Python environment of a version: its pinned requirements, and the Longshore that this machine has.

An environment is keyed by the requirements, the Python and the Longshore that made it, so that a new version with the
same requirements starts at once. It is made once, under a lock, and marked complete last; one that a killed process
left is made again. A version without requirements runs with the Python of the worker itself.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import site
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from longshore.errors import PublishedCodeError
from longshore.runs.published.requirements import have_hashes
from longshore.system.cache_dir import cache_dir
from longshore.system.file_lock import FileLock
from longshore.system.private_files import is_private, make_private

_COMPLETE = "complete"
_CHECK = "import longshore.cli.app, longshore.worker.worker"
_INSTALL_SECONDS = 3600.0
_SHOWN_LINES = 3


def private_folder(*names: str) -> Path:
    """Return a folder in the user's cache that no other user may enter, made if it is missing.

    Raise `PublishedCodeError` if others may enter it: they could put code there.
    """
    folder = cache_dir() / "published"
    try:
        make_private(folder)
        if not is_private(folder):
            raise PublishedCodeError(f"Other users may enter {folder}, where published code is unpacked. Remove it.")
        folder = folder.joinpath(*names)
        make_private(folder)
    except OSError as error:
        raise PublishedCodeError(f"{error.filename or folder} cannot be made: {error.strerror}.") from error
    return folder


def python_for(requirements: Sequence[str], say: Callable[[str], None]) -> str:
    """Return the Python that has these requirements and Longshore; install them if that was not done yet.

    `say` is called with a sentence before something takes long. Raise `PublishedCodeError` if they cannot be installed.
    """
    if not requirements:
        return sys.executable
    folder = private_folder("environments", _key(requirements))
    with_lock = FileLock(folder / "lock", private=True)
    with_lock.acquire()
    try:
        made = folder / "python"
        python = _python_of(made)
        if not ((folder / _COMPLETE).exists() and python.exists()):
            say(f"Installing {_counted(requirements)} into an environment of its own, {made}")
            _make(folder, made, requirements)
        return str(python)
    except OSError as error:
        raise PublishedCodeError(f"{error.filename or folder} cannot be written: {error.strerror}.") from error
    finally:
        with_lock.release()


def _key(requirements: Sequence[str]) -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    made_of = (
        *sorted(requirements),
        platform.python_implementation(),
        version,
        sysconfig.get_platform(),
        sys.prefix,
        *_own_folders(),
    )
    return f"{hashlib.sha256(chr(10).join(made_of).encode()).hexdigest()[:32]}-py{version}"


def _make(folder: Path, made: Path, requirements: Sequence[str]) -> None:
    (folder / _COMPLETE).unlink(missing_ok=True)
    if made.exists():
        shutil.rmtree(made)
    venv.EnvBuilder(symlinks=sys.platform != "win32").create(made)
    listed = folder / "requirements.txt"
    listed.write_text("".join(f"{each}\n" for each in requirements), encoding="utf-8")
    hashes = ["--require-hashes"] if have_hashes(requirements) else []
    # The pip of the worker's own installation installs into the other environment, so that it needs none of its own.
    # Without the current folder, which may have files of a version that someone looks at.
    pip = [sys.executable, "-P", "-m", "pip", "--python", str(_python_of(made))]
    options = ["--disable-pip-version-check", "--no-input", "--retries", "1", *hashes]
    _run([*pip, "install", *options, "-r", str(listed)], folder / "install.log", _not_installed)
    # Only now: pip must not take the packages of the worker for its own.
    own = made / sysconfig.get_path("purelib", vars={"base": "", "platbase": ""}).lstrip("/\\")
    (own / "longshore-of-the-worker.pth").write_text(
        "".join(f"import site; site.addsitedir({path!r})\n" for path in _own_folders()), encoding="utf-8"
    )
    _run([str(_python_of(made)), "-P", "-c", _CHECK], folder / "check.log", _does_not_fit)
    (folder / _COMPLETE).touch()


def _run(command: Sequence[str], log: Path, failed: Callable[[Path, str], PublishedCodeError]) -> None:
    with log.open("wb") as output:
        try:
            done = subprocess.run(  # noqa: S603  the interpreter, with arguments of ours
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_INSTALL_SECONDS,
                check=False,
                env={**os.environ, "PYTHONUTF8": "1"},
            )
        except subprocess.TimeoutExpired as error:
            raise failed(log, f"it took more than {_INSTALL_SECONDS:,.0f} s") from error
    if done.returncode:
        lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:") or "No module named" in line]
        raise failed(log, " ".join((errors or lines)[-_SHOWN_LINES:]) or "it gave no reason")


def _not_installed(log: Path, why: str) -> PublishedCodeError:
    if "No module named pip" in why:
        return PublishedCodeError(
            f"The requirements cannot be installed because {sys.executable} has no pip. Add it: "
            f"{sys.executable} -m ensurepip"
        )
    return PublishedCodeError(
        f"The requirements could not be installed, so nothing was run: {why} If this machine is offline, repeat the "
        f"command when it is not; otherwise tell the host. All that pip said is in {log}"
    )


def _does_not_fit(log: Path, why: str) -> PublishedCodeError:
    return PublishedCodeError(
        f"The requirements do not fit this Longshore, so nothing was run: {why} Tell the host. More is in {log}"
    )


def _python_of(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _own_folders() -> list[str]:
    """Return the folders from which this process imports Longshore and what it needs."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    folders.append(str(Path(__file__).parents[3]))
    return [folder for folder in dict.fromkeys(folders) if Path(folder).is_dir()]


def _counted(requirements: Sequence[str]) -> str:
    return "1 package" if len(requirements) == 1 else f"{len(requirements):,} packages"
