"""Requests to others: each with one deadline for all of it, and with a token from a file."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tidemark.models.base.text import format_number

_MAX_BYTES = 1_000_000
"""Maximum size of an answer."""


class NoAnswer(Exception):
    """Nothing answered that could be used; the text says why, and shows no address."""


def fetch(method: str, url: str, timeout_seconds: float, **request: Any) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a request; redirects are not followed.

    Args:
        method: the HTTP method.
        url: where to.
        timeout_seconds: how long it may take from the look-up of the name to the end of the answer, in seconds.
        request: the rest of it, as ``httpx`` takes it.

    Raises:
        NoAnswer: when there is none within that time, or one that is too large or compressed, which is not asked for:
            a few bytes can unpack to gigabytes.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_fetch(method, url, timeout_seconds, request))
    finally:
        # Not asyncio.run: that waits until a name is resolved that nobody waits for any more.
        loop.close()


async def _fetch(
    method: str, url: str, timeout_seconds: float, request: Mapping[str, Any]
) -> tuple[int, bytes]:
    request = {**request, "headers": {**request.get("headers", {}), "Accept-Encoding": "identity"}}
    try:
        # Timeouts of single steps would let the other side take any number of them.
        async with (
            asyncio.timeout(timeout_seconds),
            httpx.AsyncClient(timeout=None, verify=_tls()) as http,  # noqa: S113 - the line above has it
            http.stream(method, url, **request) as answer,
        ):
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise NoAnswer("its answer is compressed, which was not asked for")
            body = b""
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > _MAX_BYTES:
                    raise NoAnswer(f"its answer is larger than {_MAX_BYTES // 1_000_000} MB")
            return answer.status_code, body
    except TimeoutError:
        raise NoAnswer(f"no answer within {format_number(timeout_seconds)} s") from None
    except (httpx.RequestError, OSError) as error:
        raise NoAnswer(f"it cannot be reached ({type(error).__name__})") from None


@functools.cache
def _tls() -> ssl.SSLContext:
    # Making one takes longer than most requests.
    return httpx.create_ssl_context()


class TokenFileError(Exception):
    """A file holds no token; the text names the file and says why, and shows nothing of what it holds."""


def bearer(file: Path | None) -> dict[str, str]:
    """Return the headers that send the token in a file, which is read anew each time; none without a file.

    Raises:
        TokenFileError: when the file cannot be read or holds no token.
    """
    if file is None:
        return {}
    try:
        token = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise TokenFileError(f"token file {file}: {error.strerror}") from None
    except ValueError:
        raise TokenFileError(f"token file {file} holds no token: it is not plain ASCII") from None
    if not token:
        raise TokenFileError(f"token file {file} is empty")
    return {"Authorization": f"Bearer {token}"}
