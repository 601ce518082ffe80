"""What a database URL says is read as it was meant, or refused in words that name the fix and no password."""

from __future__ import annotations

import pytest

from longshore.errors import SettingsError
from longshore.media.postgres.location import PARAMETERS, locate


def refusal(url: str) -> str:
    with pytest.raises(SettingsError) as refused:
        locate(url)
    return str(refused.value)


@pytest.mark.parametrize(
    ("typed", "meant"), [("shema", "schema"), ("Schema", "schema"), ("sslmod", "sslmode"), ("pasword", "password")]
)
def test_a_mistyped_parameter_is_named_with_the_one_that_was_meant(typed: str, meant: str) -> None:
    told = refusal(f"postgresql://anna@db/x?{typed}=SECRET")
    assert f"unknown parameter '{typed}'; did you mean {meant}?" in told
    assert "SECRET" not in told


def test_a_parameter_that_nobody_knows_is_answered_with_those_there_are() -> None:
    told = refusal("postgresql://db/x?wibble=1")
    assert "did you mean" not in told
    assert all(name in told for name in PARAMETERS)


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name not in ("schema", "port")])
def test_a_parameter_of_the_driver_is_handed_on(name: str) -> None:
    assert locate(f"postgresql://db/x?schema=mine&{name}=a%20b").dsn == f"postgresql://db/x?{name}=a+b"


@pytest.mark.parametrize(
    "hosts",
    ["db", "db:", "db:5432", "a:5432,b:5433", "a,b:1", "[::1]", "[::1]:5432", "%2Frun%2Fpostgresql", "u:p@a:1,b:2"],
)
def test_hosts_and_ports_as_they_may_be_written(hosts: str) -> None:
    assert locate(f"postgresql://{hosts}/x").dsn == f"postgresql://{hosts}/x"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:SECRET@host:52529:5432/x",
        "postgresql://host:port/x",
        "postgresql://host:0/x",
        "postgresql://host:70000/x",
        f"postgresql://host:{'9' * 5000}/x",
        "postgresql://a:1,b:x/x",
        "postgresql://[::1]5432/x",
        "postgresql://host/x?port=many",
    ],
)
def test_a_port_that_is_none(url: str) -> None:
    told = refusal(url)
    assert "an invalid port" in told
    assert "host:5432" in told
    assert "SECRET" not in told


@pytest.mark.parametrize("character", "@/#?:[")
def test_a_password_with_a_character_that_must_be_encoded_is_never_shown(character: str) -> None:
    url = f"postgresql://anna:12{character}SECRET@db/x"
    if character == ":":
        assert locate(url).dsn == url
        return
    told = refusal(url)
    assert "%40" in told
    assert "SECRET" not in told


@pytest.mark.parametrize("password", ["12?SECRET=x", "12?SECRET&x", "12?x&SECRET="])
def test_nor_what_looks_like_a_parameter_behind_it(password: str) -> None:
    assert "SECRET" not in refusal(f"postgresql://anna:{password}@db/x")


def test_a_comma_too_many() -> None:
    assert "comma" in refusal("postgresql://a:1,/x")
