"""The receiver of notifications: one address, over HTTP, with a token if it wants one."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event
from typing import Any

import httpx
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    wait_exponential,
)

from tidemark.controller.runtime.fetch import NoAnswer, fetch
from tidemark.controller.runtime.token_file import TokenFileError, bearer

_log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
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
    """Sends messages.

    Args:
        url: where to. It is never logged: with many receivers, whoever knows it may write to them.
        token_file: file that holds a bearer token, read for each message; None for none.
        stop: set when no further attempt is to be made; pauses end with it.
    """

    def __init__(self, url: str, token_file: Path | None, stop: Event) -> None:
        self._url = url
        self._token_file = token_file
        self._stop = stop
        self._retrying = Retrying(
            retry=retry_if_exception_type(_Again),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(max=_LONGEST_PAUSE_SECONDS),
            sleep=sleep_using_event(stop),
            before_sleep=_log_again,
            reraise=True,
        )

    def send(self, message: dict[str, Any]) -> None:
        """Deliver a message.

        Raises:
            NotDelivered: when it was not taken, after all attempts that make sense.
        """
        self._retrying(self._send, message)

    def _send(self, message: dict[str, Any]) -> None:
        if self._stop.is_set():
            raise NotDelivered("the controller stops")
        try:
            status, _ = fetch(
                "POST", self._url, TIMEOUT_SECONDS, json=message, headers=bearer(self._token_file)
            )
        except TokenFileError as error:
            raise NotDelivered(str(error)) from None
        except NoAnswer as error:
            raise _Again(str(error)) from None
        if status == httpx.codes.TOO_MANY_REQUESTS or httpx.codes.is_server_error(status):
            raise _Again(f"it answers {status}")
        if not httpx.codes.is_success(status):
            raise NotDelivered(f"it answers {status}; are its address and its token right?")


def _log_again(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    _log.info("a message is sent again: %s", error)
