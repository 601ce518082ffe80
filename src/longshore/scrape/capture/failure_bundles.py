"""Failure bundles: the first failure of each kind with all its data, for inspection and an offline rerun.

A bundle is a folder:

    bundle.json        the job, the failure and its place, every request and response, worker, settings, versions
    page-1.html …      the body of each response
    screenshot.png     the browser's view, if there was one

A bundle is built under a temporary name and renamed, so a partial bundle is never visible, and if many processes fail
in the same way at once, only the configured number is kept. Secrets are masked (see `masking`).
"""

from __future__ import annotations

import platform
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from longshore.errors import Failure, InputFileError, short_name
from longshore.job import Job
from longshore.masking import MASK, is_secret, mask_text, mask_value
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.failure_signature import FailureSignature
from longshore.scrape.capture.masking import mask_exchange
from longshore.scrape.capture.trail import Trail
from longshore.system.private_files import make_private

MOST = 100
MOST_BYTES = 256 * 1024 * 1024
"""The total size of a folder's bundles. Beyond that, the oldest bundles of other runs are removed."""
_MAX_SCREENSHOT_BYTES = 8 * 1024 * 1024
_ABANDONED_SECONDS = 3600.0
_NAME = "bundle.json"
_SUFFIXES = {"html": ".html", "json": ".json", "xml": ".xml", "plain": ".txt", "pdf": ".pdf", "csv": ".csv"}


class BundledExchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange as stored in a bundle."""

    method: str
    url: str
    final_url: str = ""
    request_headers: dict[str, str] = {}
    request_body: str = ""
    status: int | None = None
    headers: dict[str, str] = {}
    file: str = ""
    """The file with the response body."""
    error: str = ""
    at: float = 0.0
    seconds: float = 0.0
    identity: str = ""
    cached: bool = False


class FailureBundle(msgspec.Struct, frozen=True, kw_only=True):
    """One failure, with the data to run its handler again."""

    job: Job
    """The job as it was claimed, with its payload masked."""
    failure: Failure
    signature: FailureSignature
    exchanges: tuple[BundledExchange, ...] = ()
    dropped: int = 0
    """The number of earlier exchanges that were dropped to limit the size."""
    worker: str = ""
    settings: dict[str, str] = {}
    environment: dict[str, str] = {}
    masked: bool = False
    """Whether the payload had secrets: then a rerun gets a masked payload, not the original one."""
    at: float = 0.0


class FailureBundles:
    """The bundles of a folder, which any number of processes may share."""

    def __init__(
        self, folder: Path, *, each: int = 1, worker: str = "", settings: Mapping[str, object] | None = None
    ) -> None:
        """Use `folder`; keep `each` failures of one signature per run, with the worker's `settings`."""
        self._folder = folder
        self._each = each
        self._worker = worker
        self._settings = settings or {}
        self._full: set[str] = set()

    def keep(self, job: Job, failure: Failure, signature: FailureSignature, trail: Trail | None = None) -> Path | None:
        """Store a failure and return its bundle; None if there are enough of its kind or no space is left.

        Fast if there are enough of its kind. Raise `OSError` if the folder cannot be written to.
        """
        digest = signature.digest(job.run)
        if digest in self._full:
            return None
        name = f"{_slug(job.run)}-{_slug(short_name(signature.error))}-{_slug(signature.function)}-{digest}"
        places = [self._folder / (name if number == 1 else f"{name}-{number}") for number in range(1, self._each + 1)]
        if not any(not place.exists() for place in places):
            self._full.add(digest)
            return None
        part = self._folder / f".{name}.{secrets.token_hex(4)}.part"
        try:
            make_private(part)
            self._fill(part, job, failure, signature, trail or Trail())
            if not self._evict(_slug(job.run), _size(part)):
                self._full.add(digest)
                return None
            for place in places:
                # The rename fails if another process has stored a bundle there.
                with suppress(OSError):
                    return part.rename(place)
            self._full.add(digest)
            return None
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _fill(self, part: Path, job: Job, failure: Failure, signature: FailureSignature, trail: Trail) -> None:
        # Imported here: it is slow to import, and most processes never fail.
        from importlib.metadata import version

        payload = mask_value(job.payload)
        bundle = FailureBundle(
            job=msgspec.structs.replace(job, payload=payload, failure=None, result=None),
            failure=msgspec.structs.replace(
                failure, message=mask_text(failure.message), traceback=mask_text(failure.traceback)
            ),
            signature=signature,
            exchanges=tuple(_bundled(part, number, exchange) for number, exchange in enumerate(trail.exchanges, 1)),
            dropped=trail.dropped,
            worker=self._worker,
            settings={name: _masked_setting(name, value) for name, value in self._settings.items()},
            environment={
                "longshore": version("longshore"),
                "python": platform.python_version(),
                "system": platform.platform(terse=True),
            },
            masked=payload != job.payload,
            at=time.time(),
        )
        (part / _NAME).write_bytes(msgspec.json.format(msgspec.json.encode(bundle), indent=2))
        if 0 < len(trail.screenshot) <= _MAX_SCREENSHOT_BYTES:
            (part / "screenshot.png").write_bytes(trail.screenshot)

    def _evict(self, run: str, needed: int) -> bool:
        """Return whether a bundle of `needed` bytes fits, after removing the oldest bundles of other runs."""
        kept = sorted(_bundles_by_time(self._folder))
        size = sum(_size(path) for _, path in kept)
        number = len(kept)
        for _, path in kept:
            if number < MOST and size + needed <= MOST_BYTES:
                break
            if not path.name.startswith(f"{run}-"):
                size -= _size(path)
                number -= 1
                shutil.rmtree(path, ignore_errors=True)
        return number < MOST and size + needed <= MOST_BYTES


def bundles_of(folder: Path, run: str, error: str = "") -> list[Path]:
    """Return the bundles of a run, oldest first; with `error`, only those of that error."""
    beginning = f"{_slug(run)}-" + (f"{_slug(error)}-" if error else "")
    kept = sorted(_bundles_by_time(folder)) if folder.is_dir() else []
    return [path for _, path in kept if path.name.startswith(beginning)]


def read_bundle(path: Path) -> tuple[FailureBundle, list[Exchange]]:
    """Return a bundle and its exchanges with their bodies. Raise `InputFileError` if `path` is no bundle."""
    folder = path.parent if path.name == _NAME else path
    try:
        bundle = msgspec.json.decode((folder / _NAME).read_bytes(), type=FailureBundle)
        exchanges = [_exchange(folder, bundled) for bundled in bundle.exchanges]
    except OSError as error:
        raise InputFileError(
            f"{path} is no failure bundle: {error.filename}: {error.strerror}. Name one of the folders in "
            ".longshore/bundles."
        ) from error
    except msgspec.MsgspecError as error:
        raise InputFileError(f"{path} is no failure bundle that this Longshore can read: {error}") from error
    return bundle, exchanges


def _bundled(part: Path, number: int, exchange: Exchange) -> BundledExchange:
    shown = mask_exchange(exchange)
    file = ""
    if exchange.body:
        file = f"page-{number}{_suffix(exchange.headers)}"
        (part / file).write_bytes(exchange.body)
    return BundledExchange(
        method=shown.method,
        url=shown.url,
        final_url=shown.final_url,
        request_headers=dict(shown.request_headers),
        request_body=shown.request_body.decode(errors="replace"),
        status=shown.status,
        headers=dict(shown.headers),
        file=file,
        error=shown.error,
        at=shown.at,
        seconds=shown.seconds,
        identity=shown.identity,
        cached=shown.cached,
    )


def _exchange(folder: Path, bundled: BundledExchange) -> Exchange:
    fields: dict[str, Any] = msgspec.structs.asdict(bundled)
    # Use the bare name only: a bundle from an untrusted source must not read files outside its folder.
    file = Path(fields.pop("file")).name
    fields["request_body"] = bundled.request_body.encode()
    return Exchange(**fields, body=(folder / file).read_bytes() if file else b"")


def _suffix(headers: Mapping[str, str]) -> str:
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "html")
    return next((suffix for word, suffix in _SUFFIXES.items() if word in kind.lower()), ".bin")


def _masked_setting(name: str, value: object) -> str:
    return MASK if value and is_secret(name) else str(mask_value(str(value)))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:40] or "_"


def _bundles_by_time(folder: Path) -> list[tuple[float, Path]]:
    """Return the bundles of a folder with their times. Remove unfinished ones that killed processes left."""
    found = []
    for path in folder.iterdir():
        # Another process may just have removed it.
        with suppress(OSError):
            at = path.stat().st_mtime
            if not path.name.startswith("."):
                found.append((at, path))
            elif path.name.endswith(".part") and time.time() - at > _ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    return [(at, path) for at, path in found if path.is_dir()]


def _size(folder: Path) -> int:
    total = 0
    with suppress(OSError):
        for path in folder.iterdir():
            total += path.stat().st_size
    return total
