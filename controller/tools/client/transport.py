"""HTTP requests to a controller: the address, the token, retries, and each failure as one error.

Only idempotent requests are retried: reads, puts, deletes, and those posts that are declared so. They are retried when
there is no answer and when the answer is 429 or 503, and not before the ``Retry-After`` that came with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from tidemark.controller.base.fetch import NoAnswer, TokenFileError, fetch, fetch_in_loop, read_token
from tidemark.controller.tools.client.address import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE
from tidemark.controller.tools.client.errors import (
    ChangedError,
    ControllerUnusableError,
    RequestRejectedError,
    TokenRejectedError,
    UnreachableError,
)

_FIRST_WAIT_SECONDS = 0.2
"""Longest wait before the second attempt. It doubles with each attempt; the actual wait is a random part of it."""

_MAX_WAIT_SECONDS = 10.0
"""Longest wait between two attempts, even when ``Retry-After`` says more."""

_MAX_BYTES = 64_000_000
"""Maximum size of an answer: a page of reports has megabytes."""

_UNAUTHORISED = frozenset({401, 403})
_CHANGED = frozenset({412, 428})
_RETRY_LATER = frozenset({429, 503})
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})


class _RetryError(Exception):
    """The request should be sent again.

    Args:
        answer: the answer; None when there was none.
        error: why there was none.
    """

    def __init__(self, answer: httpx.Response | None, error: Exception | None = None) -> None:
        super().__init__()
        self.answer = answer
        self.error = error


class Transport:
    """Sends requests to a controller.

    Args:
        url: its address; None: ``TIDEMARK_URL``, or this machine.
        token: bearer token; None: the one in ``token_file``, or in ``TIDEMARK_TOKEN``, if it is set.
        token_file: file that holds the token; it is read for each request, so that the token can be rotated.
        timeout_seconds: how long an answer may take, from the look-up of the name to its end.
        attempts: how often a request is sent at most.
        sleep: waits for a number of seconds.
        signed_in: returns the token of who has signed in at an address, where there is no other; empty for nobody.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        timeout_seconds: float = 60.0,
        attempts: int = 5,
        sleep: Callable[[float], None] = time.sleep,
        signed_in: Callable[[str], str] = lambda _: "",
    ) -> None:
        # Paths begin with /v1: people copy addresses with it, too.
        self.url = (url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/").removesuffix("/v1")
        self.token_file = token_file
        self._sleep = sleep
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._attempts = attempts
        self._signed_in = signed_in

    @property
    def has_token(self) -> bool:
        """Whether a token is sent."""
        return bool(self.token_file or self._read_token())

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotent: bool = False,
        extra_seconds: float = 0.0,
    ) -> httpx.Response:
        """Send a request and return the answer: a success, or a 304.

        Args:
            path: path under the address, encoded.
            body: the JSON to send; None for none.
            params: query parameters; those that are None are left out.
            idempotent: whether a post may be sent again.
            extra_seconds: time that the answer may take beyond the usual timeout.

        Raises:
            ControllerUnusableError: when there is no answer, or it is not a controller's.
            RequestRejectedError: when the controller rejects the request.
        """
        retrying = Retrying(
            stop=stop_after_attempt(self._attempts if idempotent or method in _IDEMPOTENT else 1),
            wait=_wait,
            retry=retry_if_exception_type(_RetryError),
            sleep=self._sleep,
            reraise=True,
        )
        query = {name: value for name, value in (params or {}).items() if value is not None}
        sent = {**self._authorization(), **(headers or {})}

        def attempt() -> httpx.Response:
            try:
                answer = fetch(
                    method,
                    self.url + path,
                    self._timeout_seconds + extra_seconds,
                    max_bytes=_MAX_BYTES,
                    json=body,
                    params=query or None,
                    headers=sent,
                )
            except NoAnswer as error:
                raise _RetryError(None, error) from error
            if answer.status_code in _RETRY_LATER:
                raise _RetryError(answer)
            return answer

        try:
            return self._checked(retrying(attempt))
        except _RetryError as last:
            if last.answer is not None:
                return self._checked(last.answer)
            raise self._unreachable(last.error) from None
        except httpx.InvalidURL as error:
            raise self._unreachable(error) from None

    async def ask(
        self, path: str, params: Mapping[str, Any], headers: Mapping[str, str], extra_seconds: float
    ) -> httpx.Response:
        """Read as ``send`` does, but in the loop that runs, and once: who waits for hours says what is wrong."""
        query = {name: value for name, value in params.items() if value is not None}
        url, sent = self.url + path, {**self._authorization(), **headers}
        seconds = self._timeout_seconds + extra_seconds
        try:
            answer = await fetch_in_loop(
                "GET", url, seconds, max_bytes=_MAX_BYTES, params=query, headers=sent
            )
        except (NoAnswer, httpx.InvalidURL) as error:
            raise self._unreachable(error) from None
        return self._checked(answer)

    def _unreachable(self, error: BaseException | None) -> ControllerUnusableError:
        if isinstance(error, NoAnswer) and error.__cause__ is not None:
            error = error.__cause__
        if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
            return ControllerUnusableError(
                f"{self.url!r} is not an address that can be called; write it like {DEFAULT_URL}"
            )
        why = str(error) or type(error).__name__
        if "WRONG_VERSION_NUMBER" in why:
            plain = self.url.replace("https://", "http://", 1)
            return ControllerUnusableError(f"what is at {self.url} does not speak https; write {plain}")
        if "All connection attempts failed" in why:
            why = "nothing listens there"
        return UnreachableError(f"the controller at {self.url} cannot be reached: {why}")

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        content = _object_in(answer)
        status = answer.status_code
        if status in _UNAUTHORISED:
            detail = content.get("detail")
            if not self.has_token and (detail is None or status == httpx.codes.UNAUTHORIZED):
                # What it says to a program that sends none is about headers.
                detail = "no token was sent, and it requires one"
            raise TokenRejectedError(
                f"the controller at {self.url} answers {status}: {detail or 'it rejects the token'}"
            )
        if status == httpx.codes.NOT_MODIFIED or (answer.is_success and content):
            return answer
        if "detail" not in content:
            raise UnreachableError(f"what is at {self.url} answers {status}, but not as a controller does")
        rejected = ChangedError if status in _CHANGED else RequestRejectedError
        errors = tuple((str(one["pointer"]), str(one["detail"])) for one in content.get("errors") or ())
        raise rejected(status, str(content.get("type", "")), str(content["detail"]), errors)

    def _authorization(self) -> dict[str, str]:
        token = self._read_token().strip()
        if not token:
            return {}
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise ControllerUnusableError("the token holds spaces or characters that are not printable ASCII")
        return {"Authorization": f"Bearer {token}"}

    def _read_token(self) -> str:
        if self._token is not None:
            return self._token
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE) or self._signed_in(self.url)
        try:
            return read_token(self.token_file)
        except TokenFileError as error:
            raise ControllerUnusableError(str(error)) from None


_backoff = wait_random_exponential(multiplier=_FIRST_WAIT_SECONDS, max=_MAX_WAIT_SECONDS)


def _wait(state: RetryCallState) -> float:
    """Return how many seconds to wait: a random part of a growing time, and at least what ``Retry-After`` says."""
    error = state.outcome.exception() if state.outcome is not None else None
    answer = error.answer if isinstance(error, _RetryError) else None
    retry_after = "" if answer is None else answer.headers.get("retry-after", "")
    minimum = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else 0.0
    return min(max(_backoff(state), minimum), _MAX_WAIT_SECONDS)


def _object_in(answer: httpx.Response) -> dict[str, Any]:
    try:
        content = answer.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
