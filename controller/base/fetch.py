"""Requests to others, and of the command line: each with one deadline for all of it, and with a token from a file."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx

from tidemark.controller.base.background import in_thread
from tidemark.controller.base.principal import is_loopback
from tidemark.models.base.text import format_number

_MAX_BYTES = 1_000_000
"""Maximum size of an answer, unless the caller expects more."""

_FILE_SECONDS = 5.0
"""How long it may take to read a file, which may lie on a server that is gone."""


class NoAnswer(Exception):
    """Nothing answered that could be used; the text says why, and shows no address. The cause may show it."""


def fetch(
    method: str,
    url: str,
    timeout_seconds: float,
    *,
    max_bytes: int = _MAX_BYTES,
    ca_file: Path | None = None,
    **request: Any,
) -> httpx.Response:
    """Return the answer to a request, up to ``max_bytes`` long; redirects are not followed.

    Args:
        url: where to.
        timeout_seconds: how long it may take from the look-up of the name to the end of the answer, in seconds.
        ca_file: certificates of the authority that vouches for the server, PEM; None for those of the system.
        request: the rest of it, as ``httpx`` takes it.

    Raises:
        NoAnswer: when there is none within that time, or one that is too large or compressed, which is not asked for:
            a few bytes can unpack to gigabytes.
    """

    def to_the_end() -> httpx.Response:
        loop = _Loop()
        try:
            return loop.run_until_complete(
                fetch_in_loop(method, url, timeout_seconds, max_bytes=max_bytes, ca_file=ca_file, **request)
            )
        finally:
            # An answer that is left half-way is closed by its generators.
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    # Whoever asks may run in a loop of its own, and may be interrupted.
    return in_thread(to_the_end).result()


async def fetch_in_loop(
    method: str,
    url: str,
    timeout_seconds: float,
    *,
    max_bytes: int = _MAX_BYTES,
    ca_file: Path | None = None,
    **request: Any,
) -> httpx.Response:
    """Do what ``fetch`` does, in the loop that runs."""
    request = {**request, "headers": {**request.get("headers", {}), "Accept-Encoding": "identity"}}
    try:
        # Timeouts of single steps would let the other side take any number of them.
        async with (
            asyncio.timeout(timeout_seconds),
            httpx.AsyncClient(timeout=None, verify=_tls(url, ca_file)) as http,  # noqa: S113 - the line above has it
            http.stream(method, url, **request) as answer,
        ):
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise NoAnswer("its answer is compressed, which was not asked for")
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > max_bytes:
                    raise NoAnswer(f"its answer is larger than {format_number(max_bytes / 1e6)} MB")
            return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body))
    except TimeoutError:
        raise NoAnswer(f"no answer within {format_number(timeout_seconds)} s") from None
    except (httpx.RequestError, OSError) as error:
        raise NoAnswer(f"it cannot be reached ({_why(error)})") from error


def _why(error: BaseException) -> str:
    """Return what went wrong, without what may name an address."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    said = None if cause is None else cause.verify_message.partition(",")[0]
    return type(error).__name__ if said is None else f"its certificate: {said}"


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(self, host: Any, port: Any, **how: int) -> Any:
        """Resolve a name in a daemon thread: those of the loop's own pool would hold up the end of the process."""
        return await asyncio.wrap_future(in_thread(lambda: socket.getaddrinfo(host, port, **how)))


def _tls(url: str, ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is not None:
        context = ssl.create_default_context(cafile=ca_file)
        # From 3.13 on Python asks for what the authorities of many clusters lack, such as the ids of their keys.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context
    # Reading the authorities takes a tenth of a command's time; without TLS there is no certificate to verify.
    return not url.lower().startswith("http://") and _authorities()


@functools.cache
def _authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def is_safe_address(text: str) -> bool:
    """Return whether nobody on the way can read or change what goes to an address: by TLS, or on this machine."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return False
    return bool(url.host) and (url.scheme == "https" or (url.scheme == "http" and is_loopback(url.host)))


class TokenFileError(Exception):
    """A file holds no token; the text names the file and says why, and shows nothing of what it holds."""


def bearer(file: Path | None) -> dict[str, str]:
    """Return the headers that send the token in a file, which is read anew each time; none without a file.

    Raises:
        TokenFileError: when the file cannot be read or holds no token.
    """
    if file is None:
        return {}
    token = read_token(file)
    if not token:
        raise TokenFileError(f"token file {file} is empty")
    return {"Authorization": f"Bearer {token}"}


def read_token(file: Path) -> str:
    """Return the token in a file; empty when the file is.

    Raises:
        TokenFileError: when the file cannot be read in time or holds no token.
    """
    try:
        return in_thread(lambda: file.read_text(encoding="ascii")).result(_FILE_SECONDS).strip()
    except TimeoutError:
        raise TokenFileError(
            f"token file {file} cannot be read within {format_number(_FILE_SECONDS)} s"
        ) from None
    except OSError as error:
        raise TokenFileError(f"token file {file}: {error.strerror}") from None
    except ValueError:
        # The error itself would quote the content of the file.
        raise TokenFileError(f"token file {file} holds no token: it is not plain ASCII") from None
