"""A version is the same bytes for everyone, and content that could harm the reader is refused before it is read."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest

from longshore.errors import PublishedCodeError
from longshore.runs.published.handler_code import (
    MOST_UNPACKED,
    CodeFile,
    HandlerCode,
    encoded,
    fingerprint_of,
    packed,
    unpacked,
)
from longshore.runs.published.unpack import write_files

PAGES = CodeFile("pages.py", b"x = 1\n")


def code(*files: CodeFile, entry: str = "pages.py") -> HandlerCode:
    return HandlerCode(entry=entry, files=tuple(sorted((PAGES, *files), key=lambda file: file.name)))


def stored(unchecked: object) -> tuple[bytes, str]:
    """What a hostile collaborator stores: anything, listed under its true fingerprint."""
    canonical = unchecked if isinstance(unchecked, bytes) else msgspec.msgpack.encode(unchecked)
    return zlib.compress(canonical), fingerprint_of(canonical)


def test_a_version_is_read_as_it_was_packed() -> None:
    made = code(CodeFile("lib/parse.py", b"\x00\xff", executable=True), CodeFile("größe.txt", "ä".encode()))
    assert unpacked(packed(encoded(made)), fingerprint_of(encoded(made))) == made


def test_everything_that_runs_is_part_of_the_fingerprint() -> None:
    versions = [
        code(),
        code(CodeFile("a.py", b"")),
        HandlerCode(entry="pages.py", files=(CodeFile("pages.py", b"x = 2\n"),)),
        HandlerCode(entry="pages.py", files=(CodeFile("pages.py", b"x = 1\n", executable=True),)),
        HandlerCode(entry="pages.py", requirements=("lxml==5.2.1",), files=(PAGES,)),
        HandlerCode(entry="a.py", files=(CodeFile("a.py", b""), PAGES)),
    ]
    assert len({fingerprint_of(encoded(each)) for each in versions}) == len(versions)
    # Written down, so that the same files have the same fingerprint in every later Longshore.
    assert fingerprint_of(encoded(code())).startswith("5c4f71833a65")


def test_content_that_was_changed_is_refused() -> None:
    made = code()
    other = packed(encoded(code(CodeFile("a.py", b"evil"))))
    with pytest.raises(PublishedCodeError, match="does not have the fingerprint"):
        unpacked(other, fingerprint_of(encoded(made)))


@pytest.mark.parametrize(
    "name",
    [
        "../pages.py",
        "a/../../b.py",
        "/etc/passwd",
        "a//b.py",
        "./a.py",
        "a/.",
        "",
        "C:/a.py",
        "C:a.py",
        "a\\b.py",
        "..\\a.py",
        "con",
        "NUL.txt",
        "lib/aux.py",
        "com¹.py",
        "LPT9",
        "conin$",
        "a.py.",
        "a.py ",
        " a.py",
        ".env",
        "lib/.hidden/a.py",
        "a\x00.py",
        "a\nb.py",
        "a\u202eyp.exe",
        "a\x1b[2J.py",
        "cafe\u0301.py",
        "a:stream.py",
        "a?.py",
        "__pycache__/pages.cpython-311.pyc",
        "lib/__PyCache__/a.py",
        "pages.pyc",
        "pages.PYO",
        "n" * 201,
        "/".join("abcdefghijklm"),
    ],
)
def test_a_name_that_could_leave_the_folder_or_differ_between_systems_is_refused(name: str) -> None:
    with pytest.raises(PublishedCodeError):
        unpacked(*stored(code(CodeFile(name, b""))))


@pytest.mark.parametrize(
    "files",
    [
        [CodeFile("a.py", b"1"), CodeFile("a.py", b"2")],
        [CodeFile("a.py", b"1"), CodeFile("A.py", b"2")],
        [CodeFile("Lib/a.py", b"1"), CodeFile("lib/b.py", b"2")],
        [CodeFile("straße.py", b"1"), CodeFile("strasse.py", b"2")],
        [CodeFile("lib", b"1"), CodeFile("lib/a.py", b"2")],
        [CodeFile("Lib", b"1"), CodeFile("lib/a.py", b"2")],
    ],
    ids=["twice", "case", "case of a folder", "folded", "file and folder", "file and folder by case"],
)
def test_names_that_collide_are_refused(files: list[CodeFile]) -> None:
    with pytest.raises(PublishedCodeError):
        unpacked(*stored(code(*files)))


@pytest.mark.parametrize(
    "content",
    [
        {"format": 2, "entry": "pages.py", "files": [["pages.py", b"", False]]},
        {"entry": "other.py", "files": [["pages.py", b"", False]]},
        {"entry": "pages.txt", "files": [["pages.txt", b"", False]]},
        {"entry": "pages.py", "files": [["pages.py", b"", False]], "link": "/etc"},
        {"entry": "pages.py", "files": [["pages.py", b"", False, "/etc/passwd"]]},
        {"entry": "pages.py", "files": []},
        {"entry": "pages.py", "files": [["z.py", b"", False], ["pages.py", b"", False]]},
        {"entry": "pages.py", "files": [["pages.py", b"", False]] * 1001},
        *(
            {"format": 1, "entry": "pages.py", "requirements": [each], "files": [["pages.py", b"x = 1\n", False]]}
            for each in (
                "lxml",
                "--index-url https://evil.test",
                "a==1 ;\n--index-url https://evil.test",
                "a == 1",
                "-e .",
            )
        ),
        b"\xdd\xff\xff\xff\xff",
        b"",
        encoded(code()) + b"\x00",
        # The same version, spelled in another way.
        {"entry": "pages.py", "format": 1, "requirements": [], "files": [["pages.py", b"x = 1\n"]]},
    ],
)
def test_content_that_is_no_version_is_refused(content: object) -> None:
    with pytest.raises(PublishedCodeError):
        unpacked(*stored(content))


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(b"\x00" * (10 * MOST_UNPACKED), 9)
    with pytest.raises(PublishedCodeError, match="has more than"):
        unpacked(bomb, "0" * 64)


@pytest.mark.parametrize("stored", [b"", b"no zlib", packed(encoded(code()))[:-3], packed(encoded(code())) + b"more"])
def test_content_that_is_cut_off_or_followed_by_something_is_refused(stored: bytes) -> None:
    with pytest.raises(PublishedCodeError):
        unpacked(stored, fingerprint_of(encoded(code())))


def test_too_much_is_not_published() -> None:
    noise = bytes(range(256)) * 4
    with pytest.raises(PublishedCodeError, match="is the limit"):
        encoded(code(CodeFile("data.bin", noise * (MOST_UNPACKED // 1024 + 1))))


def test_files_do_not_go_through_a_link_that_lies_in_their_way(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "lib").symlink_to(outside)
    with pytest.raises(PublishedCodeError, match="leads out"):
        write_files(code(CodeFile("lib/a.py", b"")), tmp_path / "files")
    (tmp_path / "files" / "lib").unlink()
    (tmp_path / "files" / "pages.py").symlink_to(outside / "pages.py")
    with pytest.raises(PublishedCodeError, match="leads out"):
        write_files(code(), tmp_path / "files")
    assert list(outside.iterdir()) == []


def test_a_file_that_was_changed_after_unpacking_is_written_again(tmp_path: Path) -> None:
    write_files(code(), tmp_path)
    (tmp_path / "pages.py").write_text("evil")
    assert write_files(code(), tmp_path).read_bytes() == PAGES.content
