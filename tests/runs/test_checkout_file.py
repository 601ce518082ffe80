"""The sheet of a bundle: what is written stays, what a crash cut off counts as not written, and damage is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.errors import NotFoundError, UsageError
from longshore.runs.transfer import offline_checkout as bundles
from longshore.runs.transfer.offline_checkout import CheckoutFile, Terms, take_away

from .test_offline_checkout import HOLD, Trip, quiet


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "BATCH", 2)


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    return Trip(tmp_path)


async def test_the_sheet_keeps_no_password(trip: Trip) -> None:
    await trip.fill("a")
    await trip.take()
    assert "hunter2" not in trip.path.read_text()


async def test_a_line_that_a_crash_cut_off_counts_as_not_written(trip: Trip) -> None:
    await trip.fill("a", "b", "c")
    await trip.take()
    whole = trip.path.read_bytes()
    for torn in (whole[:-20], whole[:-20] + bytes(20)):
        trip.path.write_bytes(torn)
        sheet = CheckoutFile.read(trip.path)
        assert set(sheet.loans) == {"1", "2"}
        assert await take_away(trip.source, trip.bundle, sheet, progress=quiet) == 3
        assert trip.path.read_bytes().startswith(torn)
        assert set(CheckoutFile.read(trip.path).loans) == {"1", "2", "3"}


async def test_reading_a_sheet_leaves_alone_what_another_is_writing(trip: Trip) -> None:
    await trip.fill("a", "b")
    await trip.take()
    whole = trip.path.read_bytes()
    trip.path.write_bytes(whole[:-20])
    CheckoutFile.read(trip.path)
    with trip.path.open("ab") as other:
        other.write(whole[-20:])
    assert set(CheckoutFile.read(trip.path).loans) == {"1", "2"}


@pytest.mark.parametrize("damage", [b"?", b"\xff"])
async def test_a_line_that_somebody_damaged_is_refused(trip: Trip, damage: bytes) -> None:
    await trip.fill("a", "b")
    await trip.take()
    trip.path.write_bytes(trip.path.read_bytes().replace(b'"loan"', b'"l' + damage + b'n"') + b"\n")
    with pytest.raises(UsageError, match="not, or no longer, the sheet"):
        CheckoutFile.read(trip.path)


async def test_sheets_that_cannot_be_used_are_refused_with_the_reason(trip: Trip) -> None:
    with pytest.raises(NotFoundError):
        CheckoutFile.read(trip.path)
    trip.path.write_text("hello\n")
    with pytest.raises(UsageError, match="not, or no longer, the sheet"):
        CheckoutFile.read(trip.path)
    trip.path.write_text('{"type": "bundle", "format": 2}\n')
    with pytest.raises(UsageError, match="newer Longshore"):
        CheckoutFile.read(trip.path)
    with pytest.raises(UsageError, match="--resume"):
        CheckoutFile.begin(trip.path, "a", Terms(limit=1, hold=HOLD))
    with pytest.raises(UsageError, match="cannot be written"):
        CheckoutFile.begin(trip.path / "below" / "x", "a", Terms(limit=1, hold=HOLD))
