"""Compressed bodies: gzip, deflate, brotli and zstd, one after another if the server packed a body several times."""

from __future__ import annotations

import zlib
from collections.abc import Callable

_MOST_LAYERS = 5
"""Times that a body may be packed. More is an attack: each layer may expand a thousandfold."""
_WINDOW = 8 * 1024 * 1024
"""The memory that a zstd body may ask for (RFC 9659)."""
_PIECE = 1024
"""Bytes that are unpacked at a time: four bytes of zstd may become 128 KB."""
_GZIP_MAGIC = b"\x1f\x8b"
_NO_BROTLI = (
    "it is compressed with brotli, and the package brotli is not installed. "
    "Fix: pip install '.[brotli]' where Longshore was cloned."
)


class NotDecodableError(Exception):
    """The body is not what its Content-Encoding says."""


class NoDecoderError(Exception):
    """The library that unpacks this encoding is not installed. The message says how to install it."""


class BodyTooLargeError(Exception):
    """The unpacked body is larger than allowed."""


class CutError(Exception):
    """The compressed body ends too early."""


def accepted() -> str:
    """Return the header Accept-Encoding: what can be unpacked here."""
    try:
        import brotli  # noqa: F401
    except ImportError:
        return "gzip, deflate, zstd"
    return "gzip, deflate, br, zstd"


def unpack(body: bytes, content_encoding: str, most: int, *, may_be_cut: bool, cut: bool = False) -> bytes:
    """Return the body without its compression. An encoding that is unknown, such as `identity`, changes nothing.

    Raise `NotDecodableError` if the body is something else, and `BodyTooLargeError` if it has more than `most` bytes;
    with `cut`, return the first `most` bytes instead. If it ends too early, raise `CutError` if `may_be_cut`, and else
    return what there is, as browsers do: some servers never send the end.
    """
    layers = [layer for name in content_encoding.lower().split(",") if (layer := _UNPACK.get(name.strip())) is not None]
    if not body or not layers:
        return body
    if len(layers) > _MOST_LAYERS:
        raise NotDecodableError(f"it is compressed {len(layers)} times")
    for unpacked in reversed(layers):
        body, whole = unpacked(body, most)
        if len(body) > most:
            if not cut:
                raise BodyTooLargeError
            body = body[:most]
        if not whole and may_be_cut:
            raise CutError
    return body


def _gzip(body: bytes, most: int) -> tuple[bytes, bool]:
    """Return the unpacked body, or one byte more than `most`, and whether it was whole."""
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
    parts = [_zlib(unpacking, body, most + 1)]
    size, end = len(parts[0]), len(body) - len(unpacking.unused_data)
    # Another member may follow; anything else there is ignored.
    while unpacking.eof and size <= most and body.startswith(_GZIP_MAGIC, end):
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
        while not unpacking.eof and end < len(body) and size <= most:
            # In pieces: the library copies everything that follows a member.
            piece = body[end : end + _PIECE]
            part = _zlib(unpacking, piece, most + 1 - size)
            parts.append(part)
            size += len(part)
            end += len(piece) - len(unpacking.unused_data)
    return b"".join(parts), unpacking.eof


def _deflate(body: bytes, most: int) -> tuple[bytes, bool]:
    # Some servers leave out the header of zlib.
    unpacking = zlib.decompressobj(zlib.MAX_WBITS if body[0] & 0x0F == 8 else -zlib.MAX_WBITS)
    return _zlib(unpacking, body, most + 1), unpacking.eof


def _zlib(unpacking: zlib._Decompress, body: bytes, most: int) -> bytes:
    try:
        return unpacking.decompress(body, most)
    except zlib.error as error:
        raise NotDecodableError(str(error)) from error


def _brotli(body: bytes, most: int) -> tuple[bytes, bool]:
    try:
        import brotli
    except ImportError as error:
        raise NoDecoderError(_NO_BROTLI) from error
    unpacking = brotli.Decompressor()
    parts, size, given = [], 0, body
    try:
        while size <= most and (given or not unpacking.can_accept_more_data()) and not unpacking.is_finished():
            part = unpacking.process(given, output_buffer_limit=most + 1 - size)
            parts.append(part)
            size += len(part)
            given = b""
    except brotli.error as error:
        raise NotDecodableError(str(error)) from error
    return b"".join(parts)[: most + 1], unpacking.is_finished()


def _zstd(body: bytes, most: int) -> tuple[bytes, bool]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    unpacking, parts, size = decompressor.decompressobj(), [], 0
    try:
        for begin in range(0, len(body), _PIECE):
            given = body[begin : begin + _PIECE]
            while given:
                if unpacking.eof:  # another frame follows
                    unpacking = decompressor.decompressobj()
                part = unpacking.decompress(given)
                given = unpacking.unused_data
                parts.append(part)
                size += len(part)
                if size > most:
                    return b"".join(parts), False
    except zstandard.ZstdError as error:
        raise NotDecodableError(str(error)) from error
    return b"".join(parts), unpacking.eof


_UNPACK: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
