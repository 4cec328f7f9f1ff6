"""Reading a request's body: JSON by its Content-Type, perhaps gzip, never more than the settings allow.

The limit holds for the bytes sent and for the bytes after decompression, which stops as soon as it is passed: a small
body that swells to gigabytes is refused after the limit's worth of work.
"""

from __future__ import annotations

import zlib
from email.message import Message
from typing import Annotated

from fastapi import Depends, Request

from tidemark.controller.api.dependencies import TheService
from tidemark.controller.errors import BodyTooLargeError, MalformedBodyError, UnsupportedMediaTypeError

__all__ = ["JsonBody", "gunzip"]

GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""Tells zlib to expect a gzip header."""


async def _json_body(request: Request, service: TheService) -> bytes:
    limit = service.settings.max_body_bytes
    encoding = _checked_encoding(request)
    sent = bytearray()
    if int_or_zero(request.headers.get("content-length")) > limit:
        raise _too_large(limit)
    async for chunk in request.stream():
        sent += chunk
        if len(sent) > limit:
            raise _too_large(limit)
    return gunzip(bytes(sent), limit) if encoding == "gzip" else bytes(sent)


JsonBody = Annotated[bytes, Depends(_json_body)]
"""The body's JSON text, decompressed."""


def int_or_zero(text: str | None) -> int:
    """Return the whole number that a header holds, 0 when it holds none."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else 0


def gunzip(data: bytes, limit: int) -> bytes:
    """Return what ``data`` decompresses to.

    Raises:
        MalformedBodyError: when it is not one whole gzip member.
        BodyTooLargeError: when the result is larger than ``limit`` bytes.
    """
    stream = zlib.decompressobj(GZIP_WINDOW)
    try:
        # One byte more than allowed shows that there is more.
        result = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise MalformedBodyError(f"the body says Content-Encoding: gzip but is not: {error}") from None
    if len(result) > limit:
        raise _too_large(limit)
    if not stream.eof:
        raise MalformedBodyError("the body's gzip stream is cut short")
    if stream.unused_data:
        raise MalformedBodyError(f"{len(stream.unused_data)} bytes follow the body's gzip stream")
    return result


def _checked_encoding(request: Request) -> str:
    header = Message()
    header["content-type"] = request.headers.get("content-type", "text/plain")
    charset = header.get_content_charset("utf-8")
    if header.get_content_type() != "application/json" or charset not in {"utf-8", "us-ascii"}:
        found = request.headers.get("content-type")
        raise UnsupportedMediaTypeError(
            f"the body must have Content-Type: application/json in UTF-8, not {found!r}"
        )
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise UnsupportedMediaTypeError(
            f"Content-Encoding {encoding!r} is not supported; use gzip or none",
            headers={"Accept-Encoding": "gzip"},
        )
    return encoding


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"the body is larger than the {limit:,} bytes that this controller reads (TIDEMARK_MAX_BODY_BYTES)"
    )
