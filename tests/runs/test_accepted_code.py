"""What a user has accepted is theirs: for one version of one queue, in a file that nobody else can write."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from longshore.errors import PublishedCodeError
from longshore.runs.published.acceptance import AcceptedVersion, AcceptedVersions, queue_identity


def test_a_version_is_accepted_for_one_queue(tmp_path: Path) -> None:
    accepted = AcceptedVersions(tmp_path / "config" / "accepted.json")
    assert accepted.latest("q") is None
    for fingerprint in ("a" * 64, "b" * 64):
        accepted.add(AcceptedVersion(queue="q", fingerprint=fingerprint))
    again = AcceptedVersions(accepted.path)
    assert again.has("q", "a" * 64)
    assert not again.has("q", "c" * 64)
    assert not again.has("other", "a" * 64)
    assert (again.latest("q") or AcceptedVersion(queue="", fingerprint="")).fingerprint == "b" * 64
    assert stat.S_IMODE(accepted.path.stat().st_mode) == 0o600


def test_a_list_that_others_can_write_is_not_believed(tmp_path: Path) -> None:
    accepted = AcceptedVersions(tmp_path / "accepted.json")
    accepted.add(AcceptedVersion(queue="q", fingerprint="a" * 64))
    accepted.path.chmod(0o666)
    with pytest.raises(PublishedCodeError, match="Others can write"):
        accepted.has("q", "a" * 64)


def test_a_damaged_list_accepts_nothing(tmp_path: Path) -> None:
    (tmp_path / "accepted.json").write_text('{"accepted": [')
    (tmp_path / "accepted.json").chmod(0o600)
    with pytest.raises(PublishedCodeError, match="Remove it to begin without any"):
        AcceptedVersions(tmp_path / "accepted.json").has("q", "a" * 64)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("https://anna:secret@A.test:443/api/?token=x", "https://a.test/api"),
        ("git+https://x:y@a.test/q.git", "git+https://a.test/q.git"),
        ("postgres://me:pw@db.test/jobs?schema=a&sslmode=require", "postgresql://you@db.test/jobs?schema=a"),
        ("postgres://a.test:5432/jobs", "postgresql://a.test/jobs"),
        ("postgresql://me:pw@a.test:1,b.test:2/jobs", "postgresql://A.test:1,b.test:2/jobs"),
        ("sqlite:////tmp/../tmp/q.db", "sqlite:////tmp/q.db"),
    ],
)
def test_a_queue_is_known_by_its_address_without_secrets(one: str, same: str) -> None:
    assert queue_identity(one) == queue_identity(same)
    assert "secret" not in queue_identity(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.test/api", "https://b.test/api"),
        ("https://a.test/api", "http://a.test/api"),
        ("https://a.test/api", "https://a.test:8443/api"),
        ("postgresql://db.test/jobs?schema=a", "postgresql://db.test/jobs?schema=b"),
        ("postgresql://db.test/jobs", "postgresql://db.test/jobs?host=evil.test"),
        ("postgresql://db.test/jobs", "postgresql://db.test/jobs?port=5433"),
        ("postgresql://db.test/jobs", "postgresql://db.test/jobs?dbname=other"),
        ("postgresql:///jobs?service=a", "postgresql:///jobs?service=b"),
        ("sqlite:///a.db", "sqlite:///b.db"),
    ],
)
def test_other_addresses_are_other_queues(one: str, other: str) -> None:
    assert queue_identity(one) != queue_identity(other)
