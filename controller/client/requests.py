"""Asking a controller over HTTP: the address, the token, what is tried again, and each failure as one error.

Only what may be done twice is tried again: reads, puts and deletes, and those posts that are idempotent. It is tried
again when there is no answer, and when the answer is 429 or 503, which say that it is worth while; not before the
``Retry-After`` that came with it.
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

from tidemark.controller.client.errors import (
    CannotAskError,
    ChangedError,
    RefusedError,
    TokenRefusedError,
    UnreachableError,
)

__all__ = ["DEFAULT_URL", "TOKEN_VARIABLE", "URL_VARIABLE", "Asker"]

DEFAULT_URL = "http://127.0.0.1:8642"
"""Where ``tidemark serve`` listens unless told otherwise."""

URL_VARIABLE = "TIDEMARK_URL"
"""Environment variable that holds the address where none is given."""

TOKEN_VARIABLE = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the bearer token where neither a token nor a file is given."""

FIRST_WAIT_SECONDS = 0.2
"""Greatest wait before the second attempt; it doubles from attempt to attempt, and a random part of it is waited."""

LONGEST_WAIT_SECONDS = 10.0
"""Greatest wait between two attempts, whatever the controller asks for."""

_UNAUTHORISED = frozenset({401, 403})
_CHANGED = frozenset({412, 428})
_LATER = frozenset({429, 503})
_SAFE_TWICE = frozenset({"GET", "PUT", "DELETE"})


class _NotNow(Exception):
    """The request is worth another attempt.

    Args:
        answer: what came; None when nothing did.
        error: why nothing came.
    """

    def __init__(self, answer: httpx.Response | None, error: Exception | None = None) -> None:
        super().__init__()
        self.answer = answer
        self.error = error


class Asker:
    """A controller as it is asked.

    Args:
        url: its address; None: ``TIDEMARK_URL``, or this machine.
        token: bearer token; None: the one in ``token_file``, or in ``TIDEMARK_TOKEN``, if it is set.
        token_file: file that holds the token; it is read for each request, so that the token can be rotated.
        timeout_seconds: how long an answer may take.
        attempts: how often a request is sent, at the most.
        sleep: waits for some seconds.
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
    ) -> None:
        self.url = (url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
        self.token_file = token_file
        self.sleep = sleep
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._attempts = attempts
        self._http = httpx.Client(timeout=timeout_seconds)

    @property
    def has_token(self) -> bool:
        """Whether a token is sent."""
        return bool(self._token or self.token_file or os.environ.get(TOKEN_VARIABLE))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        twice: bool = False,
        extra_seconds: float = 0.0,
    ) -> httpx.Response:
        """Return the answer to a request, one that went well or a 304.

        Args:
            method: HTTP method.
            path: path under the address, encoded.
            body: what is sent as JSON; None for nothing.
            params: query parameters; those that are None are left out.
            headers: further headers.
            twice: whether a post may be sent again.
            extra_seconds: by how much longer than usual an answer may take.

        Raises:
            CannotAskError: when there is no answer, or none of a controller's.
            RefusedError: when the controller refuses it.
        """
        again = Retrying(
            stop=stop_after_attempt(self._attempts if twice or method in _SAFE_TWICE else 1),
            wait=_wait,
            retry=retry_if_exception_type(_NotNow),
            sleep=self.sleep,
            reraise=True,
        )
        given = {name: value for name, value in (params or {}).items() if value is not None}
        sent = {**self._authorization(), **(headers or {})}

        def send() -> httpx.Response:
            try:
                answer = self._http.request(
                    method,
                    self.url + path,
                    json=body,
                    params=given or None,
                    headers=sent,
                    timeout=self._timeout_seconds + extra_seconds,
                )
            except httpx.TransportError as error:
                raise _NotNow(None, error) from error
            if answer.status_code in _LATER:
                raise _NotNow(answer)
            return answer

        try:
            return self._checked(again(send))
        except _NotNow as last:
            if last.answer is not None:
                return self._checked(last.answer)
            raise self._unreachable(last.error) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception | None) -> UnreachableError:
        found = str(error) or type(error).__name__
        return UnreachableError(f"the controller at {self.url} cannot be reached: {found}")

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        found = _object_in(answer)
        status = answer.status_code
        if status in _UNAUTHORISED:
            sent = "the token was refused" if self.has_token else "no token was sent, and one is wanted"
            raise TokenRefusedError(
                f"the controller at {self.url} answers {status}: {found.get('detail') or sent}"
            )
        if status == httpx.codes.NOT_MODIFIED or (answer.is_success and found):
            return answer
        if "detail" not in found:
            raise UnreachableError(f"what is at {self.url} answers {status}, but not as a controller does")
        refused = ChangedError if status in _CHANGED else RefusedError
        raise refused(status, str(found.get("type", "")), str(found["detail"]))

    def _authorization(self) -> dict[str, str]:
        token = self._read_token().strip()
        if not token:
            return {}
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise CannotAskError("the token holds spaces or odd characters")
        return {"Authorization": f"Bearer {token}"}

    def _read_token(self) -> str:
        if self._token is not None:
            return self._token
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE, "")
        try:
            return self.token_file.read_text(encoding="ascii")
        except OSError as error:
            raise CannotAskError(f"token file {self.token_file}: {error.strerror}") from None
        except ValueError:
            # The error would quote what the file holds.
            raise CannotAskError(
                f"token file {self.token_file} holds no token: it is not plain ASCII"
            ) from None


_backoff = wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS)


def _wait(state: RetryCallState) -> float:
    """Return how many seconds to wait: a random part of a growing time, but what the controller asks for at least."""
    error = state.outcome.exception() if state.outcome is not None else None
    answer = error.answer if isinstance(error, _NotNow) else None
    asked = "" if answer is None else answer.headers.get("retry-after", "")
    least = float(asked) if asked.isascii() and asked.isdecimal() else 0.0
    return min(max(_backoff(state), least), LONGEST_WAIT_SECONDS)


def _object_in(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
