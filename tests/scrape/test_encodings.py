"""The text of a page in any encoding of the web. The cases are our own, by the WHATWG encoding and HTML standards."""

from __future__ import annotations

import pytest
from tests.linear_time import assert_linear

from longshore.scrape.http.encodings import codec_of
from longshore.scrape.http.response import Response

HTML = "text/html"
# A text in each encoding, and the labels that browsers know for it.
TEXTS = {
    ("grüße", "utf-8"): "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    ("Привет", "cp866"): "866 cp866 csibm866 ibm866",
    (
        "zażółć",
        "iso8859-2",
    ): "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    ("ĥĝ", "iso8859-3"): "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    ("āĸ", "iso8859-4"): "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    ("Привет", "iso8859-5"): "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 "
    "iso_8859-5:1988",
    ("سلام", "iso8859-6"): "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e "
    "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    ("γειά", "iso8859-7"): "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 "
    "iso_8859-7 iso_8859-7:1987 sun_eu_greek",
    ("שלום", "iso8859-8"): "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 "
    "iso_8859-8 iso_8859-8:1988 visual csiso88598i iso-8859-8-i logical",
    ("ąŋ", "iso8859-10"): "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    ("ąž", "iso8859-13"): "iso-8859-13 iso8859-13 iso885913",
    ("ŵŷ", "iso8859-14"): "iso-8859-14 iso8859-14 iso885914",
    ("œ€", "iso8859-15"): "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    ("șț", "iso8859-16"): "iso-8859-16",
    ("Привет", "koi8-r"): "cskoi8r koi koi8 koi8-r koi8_r",
    ("Привіт", "koi8-u"): "koi8-ru koi8-u",
    ("café", "mac-roman"): "csmacintosh mac macintosh x-mac-roman",
    ("Привіт", "mac-cyrillic"): "x-mac-cyrillic x-mac-ukrainian",
    ("สวัสดี", "cp874"): "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    ("zażółć", "cp1250"): "cp1250 windows-1250 x-cp1250",
    ("Привет", "cp1251"): "cp1251 windows-1251 x-cp1251",
    (
        "“café”",
        "cp1252",
    ): "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
    "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
    ("γειά", "cp1253"): "cp1253 windows-1253 x-cp1253",
    (
        "ığş",
        "cp1254",
    ): "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
    "windows-1254 x-cp1254",
    ("שלום", "cp1255"): "cp1255 windows-1255 x-cp1255",
    ("سلام", "cp1256"): "cp1256 windows-1256 x-cp1256",
    ("ąž", "cp1257"): "cp1257 windows-1257 x-cp1257",
    ("ăđ", "cp1258"): "cp1258 windows-1258 x-cp1258",
    ("你好", "gbk"): "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk gb18030",
    ("你好", "big5"): "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    ("日本", "euc_jp"): "cseucpkdfmtjapanese euc-jp x-euc-jp",
    ("日本", "iso2022_jp"): "csiso2022jp iso-2022-jp",
    ("日本①", "cp932"): "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    ("안녕", "cp949"): "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 "
    "windows-949",
    ("grüße", "utf-16-be"): "unicodefffe utf-16be",
    ("grüße", "utf-16-le"): "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
}
CASES = [(text, codec, label) for (text, codec), labels in TEXTS.items() for label in labels.split()]


def page(body: bytes, kind: str = HTML) -> str:
    return Response(url="", headers={"Content-Type": kind} if kind else {}, body=body).text


def test_every_label_of_the_standard_is_known() -> None:
    assert len(CASES) == 221, "228 in the standard: with x-user-defined and the six that browsers do not show"
    for text, codec, label in CASES:
        for spelling in (label, label.upper(), f'"{label}"', f" {label} "):
            assert page(text.encode(codec), f"text/html; charset={spelling}") == text, label


def test_every_label_is_known_in_a_page_too() -> None:
    for text, codec, label in CASES:
        if not codec.startswith("utf-16"):
            start = f"<html><head><meta charset='{label}'>"
            assert page(start.encode() + text.encode(codec)) == start + text, label


@pytest.mark.parametrize(
    "label", ["", "utf-7", "utf-32", "hz", "idna", "punycode", "iso-2022-kr", "hz-gb-2312", "rot13"]
)
def test_other_labels_are_unknown(label: str) -> None:
    assert codec_of(label) is None


@pytest.mark.parametrize(
    "declaration",
    [
        '<meta charset="{}">',
        "<meta charset={}>",
        "<META  CharSet = ' {} ' />",
        '<meta http-equiv="Content-Type" content="text/html; charset={}">',
        "<meta content='text/html;charset=\"{}\"' http-equiv=content-type>",
        "<?xml version='1.0' encoding='{}'?>",
        "<!-- <meta charset=utf-8> --><meta charset={}>",
        "<!doctype html><p title='<meta charset=utf-8>'><meta charset={}>",
        "<meta charset=nonsense><meta charset={}>",
        "<meta content='text/html; charset=utf-8'><meta charset={}>",
        "<meta charset={} charset=utf-8>",
    ],
)
@pytest.mark.parametrize("kind", [HTML, "", "text/html; charset=nonsense", "application/xhtml+xml"])
def test_a_page_declares_its_encoding(declaration: str, kind: str) -> None:
    start = declaration.format("x-cp1251")
    assert page(start.encode() + "Привет".encode("cp1251"), kind) == start + "Привет"


@pytest.mark.parametrize("label", ["utf-16", "utf-16le", "utf-16be", "ucs-2", "unicode"])
def test_a_page_that_declares_utf_16_in_single_bytes_is_utf_8(label: str) -> None:
    for start in (f"<meta charset={label}>", f"<?xml version='1.0' encoding='{label}'?>"):
        assert page(f"{start}grüße".encode()) == f"{start}grüße"


@pytest.mark.parametrize(
    "beginning",
    [
        "<!-- <meta charset=x-cp1251> -->",
        "<p title='<meta charset=x-cp1251>'>",
        "<metal charset=x-cp1251>",
        "<meta name=charset content=x-cp1251>",
        "<meta content='text/html; charset=x-cp1251'>",
        "</meta charset=x-cp1251>",
        "&lt;meta charset=x-cp1251>",
        "<!--",
        "<meta charset=",
        "<meta charset='x-cp1251",
    ],
)
def test_what_only_looks_like_a_declaration_declares_nothing(beginning: str) -> None:
    assert page(f"{beginning}grüße".encode()) == f"{beginning}grüße"


def test_a_mark_at_the_beginning_counts_before_all_else() -> None:
    for codec, mark in (("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        assert page(mark + "grüße".encode(codec), "text/html; charset=koi8-r") == "grüße"


def test_bytes_that_windows_leaves_undefined_are_controls_and_others_are_replaced() -> None:
    assert page(b"a\x81\x8d\x9db", "text/html; charset=latin1") == "a\x81\x8d\x9db"
    assert page(b"a\xaa\xd2b", "text/html; charset=windows-1253") == "a\ufffd\ufffdb"
    assert page(b"a\x80\xff", "text/html; charset=x-user-defined") == "a\uf780\uf7ff"
    assert page(b"<meta charset=x-user-defined>\xe9") == "<meta charset=x-user-defined>é"


@pytest.mark.parametrize("beginning", ["<", "<a", "<a'", "<!--", '<meta a="', "<meta ", "<?xml ", "<meta charset"])
def test_looking_for_a_declaration_takes_linear_time(beginning: str) -> None:
    assert_linear(page, lambda length: beginning.encode() * length, small=20_000)
