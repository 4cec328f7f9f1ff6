"""The receiver of notifications: one address, over HTTP, with a token if it wants one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from tidemark.controller.runtime.token_file import TokenFileError, bearer

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
"""How long one attempt may take."""

_ATTEMPTS = 4
"""How often a message is sent at most, before the next tick of the notifier begins anew."""

_LONGEST_PAUSE_SECONDS = 10.0
"""Maximum pause between two of these."""


class NotDelivered(Exception):
    """A message was not taken; the text says why and shows neither the address nor the token."""


class _Again(NotDelivered):
    """The message may be taken when it is sent again."""


class Receiver:
    """Sends messages. Not safe to share between threads.

    Args:
        url: where to. It is never logged: with many receivers, whoever knows it may write to them.
        token_file: file that holds a bearer token, read for each message; None for none.
        sleep: waits for some seconds between two attempts.
    """

    def __init__(self, url: str, token_file: Path | None, sleep: Callable[[float], None]) -> None:
        self._url = url
        self._token_file = token_file
        self._http = httpx.Client(timeout=_TIMEOUT_SECONDS)
        self._retrying = Retrying(
            retry=retry_if_exception_type(_Again),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(max=_LONGEST_PAUSE_SECONDS),
            sleep=sleep,
            before_sleep=_log_again,
            reraise=True,
        )

    def send(self, message: dict[str, Any]) -> None:
        """Deliver a message.

        Raises:
            NotDelivered: when it was not taken, after all attempts that make sense.
        """
        self._retrying(self._send, message)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            answer = self._http.post(self._url, json=message, headers=bearer(self._token_file))
        except TokenFileError as error:
            raise NotDelivered(str(error)) from None
        except httpx.TransportError as error:
            raise _Again(f"the receiver does not answer ({type(error).__name__})") from None
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS or answer.is_server_error:
            raise _Again(f"the receiver answers {answer.status_code}")
        if not answer.is_success:
            raise NotDelivered(
                f"the receiver answers {answer.status_code}; are TIDEMARK_NOTIFY_URL and the token right?"
            )


def _log_again(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    _log.info("%s; it is tried again", error)
