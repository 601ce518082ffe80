"""Failure bundles: the first failure of each kind with all its data, for inspection and an offline rerun.

A bundle is a folder:

    bundle.json        the job, the failure and its place, every request and response, worker, settings, versions
    page-1.html …      the body of each response
    screenshot.png     the browser's view, if there was one
    browser.har        the responses that the browser loaded, for the tools that read HAR files

A bundle is built under a temporary name and renamed, so a partial bundle is never visible, and if many processes fail
in the same way at once, only the configured number is kept. Secrets are masked (see `masking`).
"""

from __future__ import annotations

import platform
import re
import secrets
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from longshore.errors import Failure, InputFileError, short_name
from longshore.extensions.record_store import JobInQueue
from longshore.extensions.traces import SCREENSHOT, BundleEntry, BundleFiles
from longshore.job import Job
from longshore.masking import MASK, is_secret, mask_text, mask_value
from longshore.scrape.capture.exchange import BundledExchange, Exchange
from longshore.scrape.capture.failure_signature import FailureSignature
from longshore.scrape.capture.har import har_of
from longshore.scrape.capture.masking import mask_exchange
from longshore.scrape.capture.trail import Trail
from longshore.stored import UNFIT
from longshore.system.private_files import make_private

MOST = 100
MOST_BYTES = 256 * 1024 * 1024
"""The total size of a folder's bundles. Beyond that, the oldest bundles of other runs are removed."""
MOST_SCREENSHOT_BYTES = 8 * 1024 * 1024
_ABANDONED_SECONDS = 3600.0
_NAME = "bundle.json"
HAR = "browser.har"
_PNG = b"\x89PNG\r\n\x1a\n"
_SUFFIXES = {"html": ".html", "json": ".json", "xml": ".xml", "plain": ".txt", "pdf": ".pdf", "csv": ".csv"}


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
        if self._is_full(job.run, signature):
            return None
        trail = trail or Trail()
        return self._store(self._bundle(job, failure, signature, trail), trail.exchanges, trail.screenshot)

    def add(self, job: Job, sent: FailureBundle, bodies: Sequence[bytes], screenshot: bytes = b"") -> Path | None:
        """Store a bundle that another process made of an attempt at this job; as `keep`.

        Only the job is trusted: secrets are masked again, and files are named here.
        """
        if self._is_full(job.run, sent.signature):
            return None
        exchanges = [_exchange(bundled, body) for bundled, body in zip(sent.exchanges, bodies, strict=True)]
        bundle = msgspec.structs.replace(
            sent,
            **_masked_job(job),
            failure=_masked_failure(sent.failure),
            settings={name: _masked_setting(name, value) for name, value in sent.settings.items()},
            environment={name: mask_text(value) for name, value in sent.environment.items()},
            at=time.time(),
        )
        return self._store(bundle, exchanges, screenshot if screenshot.startswith(_PNG) else b"")

    def _is_full(self, run: str, signature: FailureSignature) -> bool:
        """Return whether there are enough bundles of one signature in a run."""
        digest = signature.digest(run)
        if digest not in self._full and all(place.exists() for place in self._places(run, signature)):
            self._full.add(digest)
        return digest in self._full

    def _places(self, run: str, signature: FailureSignature) -> list[Path]:
        name = "-".join(
            (_slug(run), _slug(short_name(signature.error)), _slug(signature.function), signature.digest(run))
        )
        return [self._folder / (name if number == 1 else f"{name}-{number}") for number in range(1, self._each + 1)]

    def _store(self, bundle: FailureBundle, exchanges: Sequence[Exchange], screenshot: bytes) -> Path | None:
        run, signature = bundle.job.run, bundle.signature
        places = self._places(run, signature)
        part = self._folder / f".{places[0].name}.{secrets.token_hex(4)}.part"
        try:
            make_private(part)
            stored = tuple(_bundled(part, number, exchange) for number, exchange in enumerate(exchanges, 1))
            bundle = msgspec.structs.replace(bundle, exchanges=stored)
            (part / _NAME).write_bytes(msgspec.json.format(msgspec.json.encode(bundle), indent=2))
            if (har := har_of(stored)) is not None:
                (part / HAR).write_bytes(har)
            if 0 < len(screenshot) <= MOST_SCREENSHOT_BYTES:
                (part / SCREENSHOT).write_bytes(screenshot)
            if self._evict(_slug(run), _size(part)):
                for place in places:
                    # The rename fails if another process has stored a bundle there.
                    with suppress(OSError):
                        return part.rename(place)
            self._full.add(signature.digest(run))
            return None
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _bundle(self, job: Job, failure: Failure, signature: FailureSignature, trail: Trail) -> FailureBundle:
        # Imported here: it is slow to import, and most processes never fail.
        from importlib.metadata import version

        return FailureBundle(
            **_masked_job(job),
            failure=_masked_failure(failure),
            signature=signature,
            dropped=trail.dropped,
            worker=self._worker,
            settings={name: _masked_setting(name, value) for name, value in self._settings.items()},
            environment={
                "longshore": version("longshore"),
                "python": platform.python_version(),
                "system": platform.platform(terse=True),
            },
            at=time.time(),
        )

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
    return [path for path in bundles_in(folder) if path.name.startswith(beginning)]


def bundles_in(folder: Path) -> list[Path]:
    """Return the bundles of a folder, oldest first; none if there is no such folder."""
    return [path for _, path in sorted(_bundles_by_time(folder))] if folder.is_dir() else []


def read_bundle(path: Path) -> tuple[FailureBundle, list[Exchange]]:
    """Return a bundle and its exchanges with their bodies. Raise `InputFileError` if `path` is no bundle."""
    bundle = _read(path)
    folder = path.parent if path.name == _NAME else path
    try:
        # The bare name only: a bundle from an untrusted source must not read files outside its folder.
        bodies = [(folder / Path(each.file).name).read_bytes() if each.file else b"" for each in bundle.exchanges]
    except OSError as error:
        raise _no_bundle(path, error) from error
    return bundle, [_exchange(each, body) for each, body in zip(bundle.exchanges, bodies, strict=True)]


def _read(path: Path) -> FailureBundle:
    folder = path.parent if path.name == _NAME else path
    try:
        return msgspec.json.decode((folder / _NAME).read_bytes(), type=FailureBundle)
    except OSError as error:
        raise _no_bundle(path, error) from error
    except UNFIT as error:
        raise InputFileError(f"{path} is no failure bundle that this Longshore can read: {error}") from error


def is_bundle_of(path: Path, jobs: Collection[JobInQueue]) -> bool:
    """Return whether a bundle is of a failure of one of these jobs; False if it cannot be read."""
    try:
        job = _read(path).job
    except InputFileError:
        return False
    return (job.run, job.kind, job.key, job.queue, job.id) in jobs


def _no_bundle(path: Path, error: OSError) -> InputFileError:
    return InputFileError(
        f"{path} is no failure bundle: {error.filename}: {error.strerror}. Name one of the folders in "
        ".longshore/bundles."
    )


def bundle_files(path: Path) -> BundleFiles:
    """Return the files of a bundle, to be sent. Raise `InputFileError` if `path` is no bundle."""
    bundle, exchanges = read_bundle(path)
    screenshot = path / SCREENSHOT
    return BundleFiles(
        bundle=msgspec.Raw(msgspec.json.encode(bundle)),
        bodies=[exchange.body for exchange in exchanges],
        screenshot=screenshot.read_bytes() if screenshot.is_file() else b"",
    )


def sent_bundle(files: BundleFiles) -> tuple[FailureBundle, list[Exchange]]:
    """Return a bundle that was sent, as `read_bundle` does. Raise `InputFileError` if it is none."""
    try:
        bundle = msgspec.json.decode(files.bundle, type=FailureBundle)
    except UNFIT as error:
        raise InputFileError(f"This is no failure bundle that this Longshore can read: {error}") from error
    if len(bundle.exchanges) != len(files.bodies):
        raise InputFileError("The failure bundle has not one body for each exchange.")
    return bundle, [_exchange(each, body) for each, body in zip(bundle.exchanges, files.bodies, strict=True)]


def bundle_entry(path: Path) -> BundleEntry:
    """Return a bundle as it is listed. Raise `InputFileError` if `path` is no bundle."""
    bundle, sizes = _read(path), {}
    for file in path.iterdir():
        with suppress(OSError):
            sizes[file.name] = file.stat().st_size
    return BundleEntry(
        name=path.name,
        run=bundle.job.run,
        kind=bundle.job.kind,
        job=bundle.job.id,
        epoch=bundle.job.epoch,
        error=bundle.signature.error,
        message=bundle.failure.message,
        place=bundle.signature.place,
        worker=bundle.worker,
        at=bundle.at,
        bytes=sum(sizes.values()),
        files=sorted(sizes, key=lambda name: (name != _NAME, name)),
    )


def _masked_job(job: Job) -> dict[str, Any]:
    payload = mask_value(job.payload)
    shown = msgspec.structs.replace(job, payload=payload, failure=None, result=None)
    return {"job": shown, "masked": payload != job.payload}


def _masked_failure(failure: Failure) -> Failure:
    return msgspec.structs.replace(failure, message=mask_text(failure.message), traceback=mask_text(failure.traceback))


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
        kind=shown.kind,
    )


def _exchange(bundled: BundledExchange, body: bytes) -> Exchange:
    fields: dict[str, Any] = msgspec.structs.asdict(bundled)
    del fields["file"]
    fields["request_body"] = bundled.request_body.encode()
    return Exchange(**fields, body=body)


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
