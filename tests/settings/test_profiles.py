"""Profiles: settings that go together under one name (A8)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.errors import SettingsError
from longshore.settings import BUILT_IN, TABLE, Settings, export_profile, resolve


def settle(folder: Path, environ: dict[str, str] | None = None, **cli: object) -> Settings:
    return resolve(cli, environ=environ or {}, folder=folder)


def essence(settings: Settings) -> tuple[int, bool, bool, bool]:
    return settings.max_work, settings.vpn, settings.database, settings.debug


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("development", (5, False, False, True)),
        ("testing", (50, False, True, False)),
        ("production", (0, True, True, False)),
    ],
)
def test_each_profile_is_what_its_name_says(
    tmp_path: Path, profile: str, expected: tuple[int, bool, bool, bool]
) -> None:
    assert essence(settle(tmp_path, profile=profile)) == expected


def test_without_a_word_it_is_production(tmp_path: Path) -> None:
    settings = settle(tmp_path)
    assert settings.profile == "production"
    assert essence(settings) == essence(settle(tmp_path, profile="production"))


@pytest.mark.parametrize("variable", ["ENVIRONMENT", "LONGSHORE_PROFILE"])
def test_a_variable_chooses_it_from_the_shell_or_the_dotenv_file(tmp_path: Path, variable: str) -> None:
    assert settle(tmp_path, {variable: "testing"}).max_work == 50
    (tmp_path / ".env").write_text(f"{variable}=development\n")
    assert settle(tmp_path).max_work == 5


def test_the_canonical_variable_decides_where_the_other_is_meant_for_another_program(tmp_path: Path) -> None:
    assert settle(tmp_path, {"ENVIRONMENT": "staging-7", "LONGSHORE_PROFILE": "testing"}).profile == "testing"
    with pytest.raises(SettingsError, match=r"LONGSHORE_PROFILE decides"):
        settle(tmp_path, {"ENVIRONMENT": "staging-7"})


def test_what_comes_from_a_profile_says_so(tmp_path: Path) -> None:
    settings = settle(tmp_path, profile="development")
    assert str(settings.source("max_work")) == "development (profile)"
    assert str(settings.source("profile")) == "--profile"
    assert settings.source("concurrency").level == "default"


def test_every_other_place_wins_over_a_profile(tmp_path: Path) -> None:
    (tmp_path / "longshore.toml").write_text("[longshore]\nmax_work = 6\n")
    assert settle(tmp_path, profile="development").max_work == 6
    (tmp_path / ".env").write_text("MAX_WORK_ORDERS=7\n")
    assert settle(tmp_path, profile="development").max_work == 7
    assert settle(tmp_path, {"MAX_WORK_ORDERS": "8"}, profile="development").max_work == 8
    assert settle(tmp_path, {"MAX_WORK_ORDERS": "8"}, profile="development", max_work="0").max_work == 0


def test_a_profile_of_ones_own_wins_over_what_the_file_says_of_all(tmp_path: Path) -> None:
    (tmp_path / "longshore.toml").write_text(
        "[longshore]\nconcurrency = 4\nmax_work = 10\n[longshore.profiles.nightly]\nmax_work = 500\n"
    )
    settings = settle(tmp_path, profile="nightly")
    assert (settings.max_work, str(settings.source("max_work"))) == (500, "nightly (profile)")
    assert (settings.concurrency, settle(tmp_path).max_work) == (4, 10)


def test_a_profile_under_a_known_name_adds_to_it(tmp_path: Path) -> None:
    (tmp_path / "longshore.toml").write_text("[longshore.profiles.development]\nconcurrency = 1\nvpn = true\n")
    settings = settle(tmp_path, profile="development")
    assert (settings.concurrency, settings.vpn, settings.max_work) == (1, True, 5)


def test_the_toml_file_may_choose_a_profile(tmp_path: Path) -> None:
    (tmp_path / "longshore.toml").write_text('[longshore]\nprofile = "testing"\n')
    assert settle(tmp_path).max_work == 50


def test_a_profile_that_nobody_defined_is_refused_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "longshore.toml").write_text("[longshore.profiles.nightly]\nmax_work = 500\n")
    with pytest.raises(SettingsError) as refused:
        settle(tmp_path, profile="develop")
    message = str(refused.value)
    assert "'develop', which --profile names" in message
    assert "development, nightly, production, testing" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[longshore.profiles.mine]\nmax_wrok = 1\n", "Did you mean 'max_work'"),
        ("[longshore.profiles.mine]\nmax_work = -1\n", "mine (profile), cannot be '-1'"),
        ("[longshore.profiles.mine]\nprofile = 'testing'\n", "cannot choose a profile itself"),
        ("[longshore.profiles]\nmine = 3\n", "[longshore.profiles.mine]"),
        ("[longshore]\nprofiles = 3\n", "[longshore.profiles.NAME]"),
    ],
)
def test_a_fault_in_a_profile_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "longshore.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        settle(tmp_path, profile="mine")
    assert said in str(refused.value)


def test_the_profiles_there_are_hold_nothing_but_settings() -> None:
    assert all(name in TABLE for profile in BUILT_IN.values() for name in profile)


def test_handlers_find_the_profile_and_the_database_in_their_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LONGSHORE_PROFILE", "LONGSHORE_DATABASE"):
        monkeypatch.setenv(name, "to be restored after the test")
    export_profile(settle(tmp_path, profile="development"))
    assert (os.environ["LONGSHORE_PROFILE"], os.environ["LONGSHORE_DATABASE"]) == ("development", "false")
