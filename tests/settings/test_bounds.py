"""Every number has a largest value, and what is larger is refused in one sentence, wherever it comes from."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.errors import SettingsError, UsageError
from longshore.settings import TABLE, SecondsRange, Settings, resolve
from longshore.worker import WorkerConfig

NUMBERS = [setting for setting in TABLE.values() if setting.type in (int, float, SecondsRange)]


def settle(folder: Path, environ: dict[str, str] | None = None, **cli: object) -> Settings:
    return resolve(cli, environ=environ or {}, folder=folder)


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.name)
def test_every_number_has_a_largest_value_which_is_allowed_and_no_larger_one_is(tmp_path: Path, setting: Any) -> None:
    most = setting.at_most
    at_most = settle(tmp_path, {setting.variable: str(most)})
    assert getattr(at_most, setting.name) == (SecondsRange(most, most) if setting.type is SecondsRange else most)
    with pytest.raises(SettingsError, match=rf"{setting.variable}.* '{most + 1}': it takes .* at most {most:,}\.$"):
        settle(tmp_path, {setting.variable: str(most + 1)})


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.name)
@pytest.mark.parametrize("text", ["1e300", "9" * 400, "99999999999999999999"])
def test_a_number_beyond_all_measure_is_refused(tmp_path: Path, setting: Any, text: str) -> None:
    with pytest.raises(SettingsError, match=f"{setting.flag} cannot be '{text}': it takes"):
        resolve({setting.name: text}, environ={}, folder=tmp_path)


def test_what_is_largest_is_a_duration_still(tmp_path: Path) -> None:
    largest = {name: TABLE[name].at_most for name in ("lease_seconds", "poll_interval", "max_idle_hours")}
    settings = resolve(largest, environ={}, folder=tmp_path)
    assert settings.lease == timedelta(days=30)
    assert settings.poll == timedelta(hours=settings.max_idle_hours) == timedelta(days=3650)


def test_a_range_is_bounded_by_its_upper_end(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a range such as 2-5, of at most 315,360,000"):
        settle(tmp_path, stagger="2-999999999999")


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 10**20},
        {"concurrency": 0},
        {"batch_size": 100_001},
        {"lease": timedelta.max},
        {"lease": timedelta(0)},
        {"poll_interval": timedelta(days=4000)},
    ],
    ids=str,
)
def test_a_worker_made_by_a_program_has_the_same_upper_bounds(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} cannot be .* at most"):
        WorkerConfig(queue_url="memory://", handler_file=Path("x.py"), **wrong)


def test_a_program_may_choose_less_than_a_person_may_set() -> None:
    quick = timedelta(milliseconds=1)
    config = WorkerConfig(queue_url="memory://", handler_file=Path("x.py"), lease=quick, poll_interval=quick)
    assert config.lease == quick


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**30])
def test_what_is_no_number_of_any_use_lies_within_no_bounds(value: float) -> None:
    assert not any(setting.holds(value) for setting in NUMBERS if setting.type is not SecondsRange)
