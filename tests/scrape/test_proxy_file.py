"""The proxy file and its three forms of a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.errors import InputFileError
from longshore.scrape.proxies.proxy_file import read_proxies


def written(folder: Path, text: str) -> Path:
    path = folder / "proxies.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_form_becomes_a_url_and_repeats_count_once(tmp_path: Path) -> None:
    text = "\ufeff# ours\n10.0.0.1:8080\n\n10.0.0.2:80:ann:p:w@d\nsocks5://bob:x@proxy.org:1080\n10.0.0.1:8080\n"
    urls = [proxy.url for proxy in read_proxies(written(tmp_path, text))]
    assert urls == ["http://10.0.0.1:8080", "http://ann:p%3Aw%40d@10.0.0.2:80", "socks5://bob:x@proxy.org:1080"]


def test_an_address_of_version_6_stands_in_brackets(tmp_path: Path) -> None:
    text = "[::1]:8080\n[2001:db8::7]:80:ann:p[w]:d\nsocks5://bob:x@[::1]:1080\n"
    urls = [proxy.url for proxy in read_proxies(written(tmp_path, text))]
    assert urls == ["http://[::1]:8080", "http://ann:p%5Bw%5D%3Ad@[2001:db8::7]:80", "socks5://bob:x@[::1]:1080"]


def test_a_proxy_is_shown_without_its_password(tmp_path: Path) -> None:
    assert str(read_proxies(written(tmp_path, "10.0.0.2:80:ann:geheim\n"))[0]) == "http://ann:***@10.0.0.2:80"


@pytest.mark.parametrize(
    "line",
    [
        "10.0.0.1",
        "10.0.0.1:http",
        "10.0.0.1:0",
        "10.0.0.1:80:ann",
        "ftp://a.org:1",
        "http://a.org",
        "http://:80",
        "a b:1",
        # Browsers cannot read these and would connect directly.
        "http://ho st:80",
        "http://grün.org:80",
        "grün.org:80",
        "http://x=y:80",
        "http://a;b:80",
        "http://a\0b:80",
        # Part of the password would be read as the end of the address and be shown.
        "http://ann:12#geheim@10.0.0.2:80",
        "http://ann:12/geheim@10.0.0.2:80",
        "http://ann:12?geheim@10.0.0.2:80",
        "http://10.0.0.1:80/geheim",
        "http://[::1:80",
        "[::1]",
        "[::1]x:80",
        "[grün]:80",
    ],
)
def test_lines_that_are_no_proxy_are_named_by_number_and_never_quoted(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputFileError, match=r"line 2 ") as refused:
        read_proxies(written(tmp_path, f"10.0.0.9:80\n{line}\n"))
    assert line not in str(refused.value).partition("A line is")[0]


def test_a_file_that_cannot_be_read_or_holds_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="cannot be read"):
        read_proxies(tmp_path / "nowhere.txt")
    with pytest.raises(InputFileError, match="not UTF-8"):
        path = tmp_path / "binary"
        path.write_bytes(b"\xff\xfe\x00")
        read_proxies(path)
    with pytest.raises(InputFileError, match="holds no proxy"):
        read_proxies(written(tmp_path, "# none\n"))
