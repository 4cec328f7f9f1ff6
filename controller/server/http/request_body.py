"""Reads a request's body: JSON by its Content-Type, optionally gzip, up to the limit of the settings.

The limit applies to the bytes sent and to the decompressed bytes. Decompression stops at the limit, so a small body
that expands to gigabytes is rejected early.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from email.message import Message
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from tidemark.controller.base.errors import (
    BodyTooLargeError,
    MalformedBodyError,
    RequestTooSlowError,
    UnsupportedMediaTypeError,
)
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.controller.server.http.authorize import authorize
from tidemark.controller.server.http.parameters import reject_unknown
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.schemas.bounds import Receipt
from tidemark.models.base.text import format_number

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""Makes zlib expect a gzip header."""


TIMEOUT_SECONDS = 30.0
"""How long the body of a request may take to arrive."""

MAX_VALUES = 1_000_000
MAX_PARTS = 300_000
"""How much a body may hold; each takes many times the bytes in memory that it has in JSON. A report has at most 100,000
partitions and 300,000 cells, in columns."""

_AT_ONCE_BYTES = 32 * 1024
"""JSON up to this size is parsed on the event loop, in less than a millisecond; larger one in a thread."""

_GUNZIP_AT_ONCE_BYTES = 4 * 1024
"""Compressed bodies up to this size, which may expand a thousandfold, are decompressed on the event loop."""

T = TypeVar("T")


@asynccontextmanager
async def read_json(request: Request) -> AsyncIterator[bytes]:
    """Yield the JSON of a request's body, decompressed; it counts against the limits until the context ends.

    Raises:
        LimitReachedError: when too much is read at once, of all callers or of this one.
        MalformedBodyError: when it is not compressed as its Content-Encoding says.
        RequestTooSlowError: when it does not arrive in time.
        BodyTooLargeError: when it is larger than the limit, or has too many values.
        UnsupportedMediaTypeError: when it is no JSON, or has another encoding than gzip.
    """
    service: Service = request.app.state.service
    limit, bodies = service.settings.max_body_bytes, service.bodies
    encoding = _checked_encoding(request)
    announced = _int_or_zero(request.headers.get("content-length"))
    if announced > limit:
        raise _too_large(limit)
    with bodies.taken(request.state.caller, announced):
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                sent = await _received(request, limit)
        except TimeoutError:
            raise RequestTooSlowError(
                f"the body did not arrive within {format_number(TIMEOUT_SECONDS)} seconds"
            ) from None
        if encoding == "gzip":
            at_once = len(sent) <= _GUNZIP_AT_ONCE_BYTES
            sent = gunzip(sent, limit) if at_once else await run_in_threadpool(gunzip, sent, limit)
        # Receipts and problems name what they are about.
        request.state.body_sha256 = await parse_aside(_sha256, sent)
        if sent.count(b",") > MAX_VALUES or _parts(sent) > MAX_PARTS:
            raise BodyTooLargeError(
                f"the body has more than {MAX_VALUES:,} values, or {MAX_PARTS:,} objects, lists and texts"
            )
        more = len(sent) - announced
        with bodies.taken(request.state.caller, more) if more > 0 else nullcontext():
            yield sent


def receipt_answer(request: Request, receipt: StoredReceipt) -> Receipt:
    """Return the receipt for what a request to a stream sent."""
    return Receipt(
        **request.path_params,
        received_us=receipt.received_us,
        duplicate=receipt.duplicate,
        body_sha256=request.state.body_sha256,
    )


def _parts(body: bytes) -> int:
    return body.count(b"{") + body.count(b"[") + body.count(b'"') // 2


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


async def _json_body(request: Request) -> AsyncIterator[bytes]:
    async with read_json(request) as body:
        yield body


JsonBody = Annotated[bytes, Depends(_json_body)]
"""The body's JSON, decompressed."""


async def parse_aside(parse: Callable[[bytes], T], body: bytes) -> T:
    """Return what ``parse`` makes of a body; a large one is parsed in a thread, so that other requests go on."""
    return parse(body) if len(body) <= _AT_ONCE_BYTES else await run_in_threadpool(parse, body)


async def _received(request: Request, limit: int) -> bytes:
    sent = bytearray()
    async for chunk in request.stream():
        sent += chunk
        if len(sent) > limit:
            raise _too_large(limit)
    return bytes(sent)


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
    content_type = request.headers.get("content-type")
    # What jobs send, without the parser of mail.
    if content_type != "application/json" and not _is_json(content_type):
        raise UnsupportedMediaTypeError(
            f"the body must have the header Content-Type: application/json in UTF-8, not {content_type!r}; "
            "with curl: -H 'Content-Type: application/json'"
        )
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise UnsupportedMediaTypeError(
            f"Content-Encoding {encoding!r} is not supported; use gzip or none",
            headers={"Accept-Encoding": "gzip"},
        )
    return encoding


def _is_json(content_type: str | None) -> bool:
    header = Message()
    header["content-type"] = content_type or "text/plain"
    is_utf8 = header.get_content_charset("utf-8") in {"utf-8", "us-ascii"}
    return is_utf8 and header.get_content_type() == "application/json"


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"the body is larger than the {limit:,} bytes that this controller reads (TIDEMARK_MAX_BODY_BYTES)"
    )


class DirectRoute(APIRoute):
    """A route whose endpoint takes the request alone and returns the response; its dependencies are not called."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint


async def check_request(request: Request) -> None:
    """Check what the dependencies check that ``app`` puts before every resource.

    Raises:
        UnauthenticatedError, ForbiddenError, TooManyRequestsError: as ``authorize`` does.
        InvalidParameterError: for a query parameter that the route does not have.
    """
    await authorize(request)
    await reject_unknown(request)
