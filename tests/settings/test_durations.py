"""Durations that are drawn: the pause between two jobs (B8, B16) and between the starts of two workers (B6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.errors import SettingsError
from longshore.settings import SecondsRange, Settings, resolve


def settle(folder: Path, environ: dict[str, str] | None = None, **cli: object) -> Settings:
    return resolve(cli, environ=environ or {}, folder=folder)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2-5", SecondsRange(2, 5)),
        ("2 – 5.5", SecondsRange(2, 5.5)),
        ("3", SecondsRange(3, 3)),
        ("0", SecondsRange(0, 0)),
    ],
)
def test_a_stagger_is_a_number_or_a_range(tmp_path: Path, text: str, expected: SecondsRange) -> None:
    assert settle(tmp_path, stagger=text).stagger == expected
    assert SecondsRange(2, 5) == settle(tmp_path).stagger


def test_a_stagger_may_be_a_number_in_the_toml_file(tmp_path: Path) -> None:
    (tmp_path / "longshore.toml").write_text("[longshore]\nstagger = 1.5\n")
    assert settle(tmp_path).stagger == SecondsRange(1.5, 1.5)


@pytest.mark.parametrize("text", ["5-2", "-1", "2-", "a-b", "2-5-7", "nan"])
def test_what_is_no_range_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="a number, or a range such as 2-5"):
        settle(tmp_path, stagger=text)


def test_a_range_is_shown_as_it_is_written(tmp_path: Path) -> None:
    assert settle(tmp_path, stagger="2-5").shown("stagger") == "2-5"
    assert settle(tmp_path, stagger="3").shown("stagger") == "3"


def test_what_is_drawn_lies_in_the_range_and_is_not_always_the_same() -> None:
    drawn = [SecondsRange(2, 5).draw() for _ in range(100)]
    assert all(2 <= seconds <= 5 for seconds in drawn)
    assert len(set(drawn)) > 50


def test_the_pause_between_jobs_is_none_unless_it_is_set(tmp_path: Path) -> None:
    assert settle(tmp_path).delay == SecondsRange(0, 0)


def test_the_old_names_set_the_pause_between_jobs(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MIN_DELAY_SECONDS=8\nMAX_DELAY_SECONDS=20\n")
    assert settle(tmp_path).delay == SecondsRange(8, 20)


def test_one_end_of_the_pause_is_enough(tmp_path: Path) -> None:
    assert settle(tmp_path, {"MIN_DELAY_SECONDS": "8"}).delay == SecondsRange(8, 8)
    assert settle(tmp_path, {"MAX_DELAY_SECONDS": "20"}).delay == SecondsRange(0, 20)


def test_a_shortest_pause_that_is_the_longer_one_is_refused_by_both_names(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MAX_DELAY_SECONDS=5\n")
    with pytest.raises(SettingsError) as refused:
        settle(tmp_path, min_delay_seconds="8")
    assert "min_delay_seconds is 8, from --min-delay-seconds" in str(refused.value)
    assert "max_delay_seconds is 5, from MAX_DELAY_SECONDS (.env)" in str(refused.value)
