"""The checkout file: written lines stay, a line cut off by a crash is ignored, and damage is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from longshore.errors import NotFoundError, UsageError
from longshore.runs.transfer import offline_checkout
from longshore.runs.transfer.offline_checkout import CheckoutFile, Merged, Terms, check_out
from longshore.wrappers.worker_queue import WorkerQueue

from .test_offline_checkout import HOLD, Trip, quiet


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_checkout, "BATCH", 2)


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    return Trip(tmp_path)


async def test_the_checkout_file_keeps_no_password(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    assert "hunter2" not in trip.path.read_text()


async def test_a_line_that_a_crash_cut_off_counts_as_not_written(trip: Trip) -> None:
    await trip.fill("a", "b", "c")
    await trip.take()
    whole = trip.path.read_bytes()
    for torn in (whole[:-20], whole[:-20] + bytes(20)):
        trip.path.write_bytes(torn)
        checkout_file = CheckoutFile.read(trip.path)
        assert set(checkout_file.jobs) == {"1", "2"}
        assert await check_out(WorkerQueue(trip.source, trip.clock), trip.checkout, checkout_file, progress=quiet) == 3
        assert trip.path.read_bytes().startswith(torn)
        assert set(CheckoutFile.read(trip.path).jobs) == {"1", "2", "3"}


async def test_reading_a_checkout_file_leaves_alone_what_another_is_writing(trip: Trip) -> None:
    await trip.fill("a", "b")
    await trip.take()
    whole = trip.path.read_bytes()
    trip.path.write_bytes(whole[:-20])
    CheckoutFile.read(trip.path)
    with trip.path.open("ab") as other:
        other.write(whole[-20:])
    assert set(CheckoutFile.read(trip.path).jobs) == {"1", "2"}


@pytest.mark.parametrize("damage", [b"?", b"\xff"])
async def test_a_line_that_somebody_damaged_is_refused(trip: Trip, damage: bytes) -> None:
    await trip.fill("a", "b")
    await trip.take()
    trip.path.write_bytes(trip.path.read_bytes().replace(b'"loan"', b'"l' + damage + b'n"') + b"\n")
    with pytest.raises(UsageError, match="is not a valid checkout file"):
        CheckoutFile.read(trip.path)


async def test_checkout_files_that_cannot_be_used_are_refused_with_the_reason(trip: Trip) -> None:
    with pytest.raises(NotFoundError):
        CheckoutFile.read(trip.path)
    trip.path.write_text("hello\n")
    with pytest.raises(UsageError, match="is not a valid checkout file"):
        CheckoutFile.read(trip.path)
    trip.path.write_text('{"type": "bundle", "format": 2}\n')
    with pytest.raises(UsageError, match="newer Longshore"):
        CheckoutFile.read(trip.path)
    with pytest.raises(UsageError, match="--resume"):
        CheckoutFile.create(trip.path, "a", Terms(limit=1, hold=HOLD))
    with pytest.raises(UsageError, match="cannot be written"):
        CheckoutFile.create(trip.path / "below" / "x", "a", Terms(limit=1, hold=HOLD))


async def test_the_format_of_the_file_is_that_of_earlier_versions(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take(1)
    checkout_file = CheckoutFile.read(trip.path)
    checkout_file.add([Merged(completed=("1",), others=("2",), born=("3",))])
    header, entry, merged = [msgspec.json.decode(line) for line in trip.path.read_bytes().splitlines() if line]
    assert (header["type"], header["format"], header["worker"]["label"][:7]) == ("bundle", 1, "bundle_")
    assert list(header) == ["type", "format", "source", "worker", "terms"]
    assert entry == {"type": "loan", "id": "1", "epoch": 1, "attempts": 0, "run": "r", "kind": "page", "key": "a"}
    assert merged == {"type": "merged", "completed": ["1"], "others": ["2"], "born": ["3"]}
