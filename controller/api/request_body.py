"""Reads a request's body: JSON by its Content-Type, optionally gzip, up to the limit of the settings.

The limit applies to the bytes sent and to the decompressed bytes. Decompression stops at the limit, so a small body
that expands to gigabytes is rejected early.
"""

from __future__ import annotations

import zlib
from email.message import Message
from typing import Annotated

from fastapi import Depends, Request

from tidemark.controller.api.dependencies import TheService
from tidemark.controller.errors import BodyTooLargeError, MalformedBodyError, UnsupportedMediaTypeError

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""Makes zlib expect a gzip header."""


async def _json_body(request: Request, service: TheService) -> bytes:
    limit = service.settings.max_body_bytes
    encoding = _checked_encoding(request)
    sent = bytearray()
    if _int_or_zero(request.headers.get("content-length")) > limit:
        raise _too_large(limit)
    async for chunk in request.stream():
        sent += chunk
        if len(sent) > limit:
            raise _too_large(limit)
    return gunzip(bytes(sent), limit) if encoding == "gzip" else bytes(sent)


JsonBody = Annotated[bytes, Depends(_json_body)]
"""The body's JSON, decompressed."""


def _int_or_zero(text: str | None) -> int:
    """Return the whole number in a header, 0 when there is none."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else 0


def gunzip(data: bytes, limit: int) -> bytes:
    """Decompress ``data``.

    Raises:
        MalformedBodyError: when it is not exactly one complete gzip member.
        BodyTooLargeError: when the result is larger than ``limit`` bytes.
    """
    stream = zlib.decompressobj(_GZIP_WINDOW)
    try:
        # One byte above the limit shows that there is more.
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
