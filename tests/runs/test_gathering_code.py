"""What is gathered from a file or a folder to be published, and which requirements are pinned."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

import pytest
from tests.linear_time import assert_linear

from longshore.errors import PublishedCodeError
from longshore.runs.published.gather import gather
from longshore.runs.published.requirements import pinned_requirements

HASH = "--hash=sha256:" + "0" * 64


def folder(path: Path, *names: str) -> Path:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("x = 1\n")
    return path


def test_a_folder_is_published_without_what_is_no_code(tmp_path: Path) -> None:
    folder(
        tmp_path,
        *(
            "pages.py",
            "lib/parse.py",
            "lib/data.json",
            ".env",
            ".git/config",
            "__pycache__/pages.pyc",
            "logs/worker_1.log",
        ),
        *("jobs.db", "server.key", "venv/lib/x.py", "other/pyvenv.cfg", "other/x.py", ".longshore/fleet.json"),
    )
    (tmp_path / "requirements.txt").write_text("lxml==5.2.1\n")
    code = gather(tmp_path)
    assert [file.name for file in code.files] == ["lib/data.json", "lib/parse.py", "pages.py"]
    assert (code.entry, code.requirements) == ("pages.py", ("lxml==5.2.1",))


def test_the_same_files_are_the_same_version_wherever_and_whenever_they_were_written(tmp_path: Path) -> None:
    one = gather(folder(tmp_path / "one", "pages.py", "b.py", "a.py"))
    other = gather(folder(tmp_path / "other", "a.py", "b.py", "pages.py"))
    assert one == other
    (tmp_path / "other" / "b.py").chmod(stat.S_IRWXU)
    assert gather(tmp_path / "other") != one


def test_a_file_that_imports_its_neighbour_is_published_with_it_or_not_at_all(tmp_path: Path) -> None:
    folder(tmp_path, "parse.py")
    (tmp_path / "pages.py").write_text("import json\nfrom parse import title\n")
    with pytest.raises(PublishedCodeError, match=r"imports parse, which is beside it\. Publish the folder"):
        gather(tmp_path / "pages.py")
    assert [file.name for file in gather(tmp_path).files] == ["pages.py", "parse.py"]


def test_a_link_is_not_published(tmp_path: Path) -> None:
    folder(tmp_path, "pages.py")
    (tmp_path / "secrets.txt").symlink_to("/etc/passwd")
    with pytest.raises(PublishedCodeError, match="is a link"):
        gather(tmp_path)


def test_the_entry_is_named_if_it_cannot_be_known(tmp_path: Path) -> None:
    folder(tmp_path, "a.py", "b.py")
    with pytest.raises(PublishedCodeError, match=r"Name it with --entry\. There are: a\.py, b\.py"):
        gather(tmp_path)
    assert gather(tmp_path, entry="b.py").entry == "b.py"
    with pytest.raises(PublishedCodeError, match=r"There is no Python file .c\.py."):
        gather(tmp_path, entry="c.py")


def test_requirements_have_one_spelling() -> None:
    lines = [
        "# pinned",
        "",
        "zstandard == 0.22.0",
        "lxml[html] ==5.2.1 ; python_version < '3.13'  # fast",
        "a-b==1!2.0+x",
    ]
    assert pinned_requirements(lines, "r") == (
        "a-b==1!2.0+x",
        "lxml[html]==5.2.1 ; python_version < '3.13'",
        "zstandard==0.22.0",
    )
    assert pinned_requirements(["lxml==5.2.1 \\", f"    {HASH}"], "r") == (f"lxml==5.2.1 {HASH}",)


@pytest.mark.parametrize(
    "line",
    [
        "lxml",
        "lxml>=5",
        "lxml~=5.2",
        "lxml==5.*",
        "lxml===5",
        "lxml==5,<6",
        "-r other.txt",
        "-e .",
        "--index-url https://evil.test/simple",
        "lxml==5 --index-url https://evil.test/simple",
        "lxml @ https://evil.test/lxml.whl",
        "https://evil.test/lxml.whl",
        "./lxml.whl",
        "git+https://evil.test/x",
        "lxml==5.2.1 --hash=md5:00",
        "lxml==5.2.1 --global-option=x",
        "lxml==5.2.1 ; python_version > '3' --config-settings=x=y",
        "lxml==5.2.1 ; python_version > '3'\t-r other.txt",
        "lxml==5.2.1 ; '${HOME}' == 'x'",
        "lxml==5.2.1 ; x @ https://evil.test/lxml.whl",
        "lxml==5.2.1 --hash=sha256:" + "0" * 64 + " --pre",
        "lxml[a --pre]==5.2.1",
        "lxml==5.2.1 ;" + " x" * 20_000,
        "longshore==1.0",
        "Long.Shore==1",
        "LONGSHORE==1",
    ],
)
def test_a_requirement_that_could_mean_several_things_is_refused(line: str) -> None:
    if line == "Long.Shore==1":  # another name than ours
        assert pinned_requirements([line], "r") == ("Long.Shore==1",)
        return
    with pytest.raises(PublishedCodeError):
        pinned_requirements([line], "requirements.txt")


@pytest.mark.parametrize("begin", ["a==1;", "a", "a["])
@pytest.mark.parametrize("unit", [" ", "\t ", " ;", " --hash=sha256:" + "0" * 64, "a.", " #", "\\", "\\\n"])
def test_a_hostile_requirement_takes_no_more_than_linear_time(begin: str, unit: str) -> None:
    def read(line: str) -> None:
        with suppress(PublishedCodeError):
            pinned_requirements([line], "r")
        with suppress(PublishedCodeError):
            pinned_requirements(line.splitlines(keepends=True), "r")

    assert_linear(read, lambda n: begin + unit * (n // len(unit)) + "x")


def test_either_all_requirements_have_hashes_or_none() -> None:
    with pytest.raises(PublishedCodeError, match="Give all of them one"):
        pinned_requirements([f"a==1 {HASH}", "b==2"], "r")
