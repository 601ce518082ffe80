"""The encodings of the web, by the WHATWG encoding standard: their labels, how a page declares one, and decoding.

The encoding of a page is that of its byte order mark, else the one the server names, else the one the page declares,
else UTF-8. Only the encodings of the standard are used: of Python's other codecs, some take the square of the length.
"""

from __future__ import annotations

import codecs
import re
from encodings import normalize_encoding
from encodings.aliases import aliases

# The labels of each encoding, by Python's codec for it. The first label is the name of the encoding in the standard.
# Browsers do not show pages with the labels that the standard calls "replacement" (iso-2022-kr, hz-gb-2312, …). Here
# they count as unknown, so that the ASCII of such a page can be read.
_ENCODINGS = {
    "utf-8": "utf-8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8",
    "cp866": "ibm866 866 cp866 csibm866",
    "iso8859-2": "iso-8859-2 csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso8859-3": "iso-8859-3 csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso8859-4": "iso-8859-4 csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso8859-5": "iso-8859-5 csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso8859-6": (
        "iso-8859-6 arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i"
        " iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
    ),
    "iso8859-7": (
        "iso-8859-7 csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7"
        " iso_8859-7:1987 sun_eu_greek"
    ),
    "iso8859-8": (
        "iso-8859-8 csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8"
        " iso_8859-8:1988 visual iso-8859-8-i csiso88598i logical"
    ),
    "iso8859-10": "iso-8859-10 csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "iso-8859-15 csisolatin9 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "koi8-r cskoi8r koi koi8 koi8_r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh csmacintosh mac x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "windows-874 dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1252": (
        "windows-1252 ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591"
        " iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252"
    ),
    "cp1253": "windows-1253 cp1253 x-cp1253",
    "cp1254": (
        "windows-1254 cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5"
        " x-cp1254"
    ),
    "cp1255": "windows-1255 cp1255 x-cp1255",
    "cp1256": "windows-1256 cp1256 x-cp1256",
    "cp1257": "windows-1257 cp1257 x-cp1257",
    "cp1258": "windows-1258 cp1258 x-cp1258",
    "gb18030": "gb18030 gbk chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jp": "euc-jp cseucpkdfmtjapanese x-euc-jp",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis",
    "cp949": (
        "euc-kr cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949"
    ),
    "utf-16-be": "utf-16be unicodefffe",
    "utf-16-le": "utf-16le csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16",
    "x-user-defined": "x-user-defined",
}
_BY_LABEL = {label: codec for codec, labels in _ENCODINGS.items() for label in labels.split()}
# Servers written in Python send Python's names, such as latin-1, which browsers do not know.
_BY_PYTHON_NAME = {
    **{codec.replace("-", "_"): codec for codec in _ENCODINGS},
    **dict.fromkeys(("latin_1", "ascii"), "cp1252"),
    **dict.fromkeys(("gbk", "gb2312"), "gb18030"),
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859_9": "cp1254",
    "iso8859_11": "cp874",
    "utf_16": "utf-16-le",
}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_USER_DEFINED = {byte: 0xF700 + byte for byte in range(0x80, 0x100)}
_C1 = range(0x80, 0xA0)
"""Bytes that Windows code pages leave undefined here are control characters in the standard, with the same number."""
_WINDOWS = frozenset({"cp874", *(f"cp{page}" for page in range(1250, 1259))})

_WHITE_SPACE = "\t\n\f\r "
_IN_HEADER = re.compile(r"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,"']+))""", re.IGNORECASE)
_LOOKED_AT = 4096
"""Bytes at the beginning of a page in which its declaration is looked for. Browsers look at 1,024 at least."""
_XML = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']\s*([\w.:-]+)""")
# A comment, a tag with its attributes, or other markup, up to its end.
_MARKUP = re.compile(
    rb"""<!--.*?(?:-->|\Z) | <(?P<name>/?[a-z][^\s/>]*)(?P<attributes>(?:[^>"']|"[^"]*"|'[^']*')*)>? | <[!/?][^>]*""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    rb"""[\s/]*(?P<name>[^\s/>=]+)\s*(?:=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s>]*)))?"""
)


def codec_of(label: str) -> str | None:
    """Return the codec of the encoding of the web that browsers or Python know by this label; None if there is none."""
    label = label.strip(_WHITE_SPACE).lower()
    if (codec := _BY_LABEL.get(label)) is not None:
        return codec
    # Not `codecs.lookup`: it remembers every label for ever, and pages choose the labels.
    name = normalize_encoding(label)
    return _BY_PYTHON_NAME.get(aliases.get(name, name))


def decode_page(body: bytes, content_type: str) -> str:
    """Return a body as text, decoded as a browser does it; undecodable bytes are replaced."""
    for mark, marked in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(marked, errors="replace")
    kind = content_type.lower()
    codec = _named_by_server(content_type)
    # Only markup declares an encoding; in plain text or JSON such a declaration is content.
    if codec is None and (not kind or "html" in kind or "xml" in kind):
        codec = _declared_by_page(body[:_LOOKED_AT])
    return _decode(body, codec or "utf-8")


def _decode(body: bytes, codec: str) -> str:
    if codec == "x-user-defined":
        return body.decode("latin-1").translate(_USER_DEFINED)
    return body.decode(codec, errors=_C1_OR_REPLACED if codec in _WINDOWS else "replace")


def _named_by_server(content_type: str) -> str | None:
    named = _IN_HEADER.search(content_type)
    return None if named is None else codec_of(next(group for group in named.groups() if group is not None))


def _declared_by_page(beginning: bytes) -> str | None:
    xml = _XML.match(beginning)
    codec = _declared(xml[1]) if xml is not None else None
    if codec is not None:
        return codec
    for found in _MARKUP.finditer(beginning):
        if (found["name"] or b"").lower() == b"meta" and (codec := _declared_by_meta(found["attributes"])) is not None:
            return codec
    return None


def _declared_by_meta(attributes: bytes) -> str | None:
    """Return the codec that a meta element declares with `charset`, or with `http-equiv` and `content`."""
    given: dict[bytes, bytes] = {}
    for found in _ATTRIBUTE.finditer(attributes):
        # The first attribute of a name counts.
        given.setdefault(found["name"].lower(), found["double"] or found["single"] or found["bare"] or b"")
    if b"charset" in given:
        return _declared(given[b"charset"])
    content = _IN_HEADER.search(given.get(b"content", b"").decode("latin-1"))
    if content is None or given.get(b"http-equiv", b"").lower() != b"content-type":
        return None
    return _declared(next(group for group in content.groups() if group is not None).encode("latin-1"))


def _declared(label: bytes) -> str | None:
    """Return the codec for a label that was itself read as ASCII: the page cannot be UTF-16."""
    codec = codec_of(label.decode("latin-1"))
    if codec is not None and codec.startswith("utf-16"):
        return "utf-8"
    return "cp1252" if codec == "x-user-defined" else codec


def _c1_or_replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(chr(byte) if byte in _C1 else "\ufffd" for byte in bad), error.end


_C1_OR_REPLACED = "longshore-c1-or-replaced"
codecs.register_error(_C1_OR_REPLACED, _c1_or_replaced)
