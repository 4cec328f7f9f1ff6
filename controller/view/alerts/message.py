"""Messages in the form of Alertmanager's webhook, version 4, and how they are sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import httpx
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    wait_exponential,
)

from tidemark.controller.base.fetch import NoAnswer, TokenFileError, bearer, fetch
from tidemark.controller.view.alerts.rules import Key, Notification

RECEIVER = "tidemark"
"""Name of the receiver in the messages."""

_NO_TIME = "0001-01-01T00:00:00Z"
"""How the form writes that something has not begun or ended."""

_FNV_OFFSET, _FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1


def messages(
    notifications: Sequence[Notification], runbooks: str, address: str
) -> list[tuple[dict[str, Any], list[Notification]]]:
    """Return one message for each name of an alert, with its notifications.

    Args:
        notifications: what is due.
        runbooks: prefix of the name of a runbook's file in ``runbook_url``.
        address: where a browser finds the controller.
    """
    by_name = sorted(notifications, key=lambda notification: (_name(notification), notification.key))
    return [
        (_message(name, some, runbooks, address), some)
        for name, some in ((name, list(group)) for name, group in groupby(by_name, key=_name))
    ]


def fingerprint_of(key: Key) -> str:
    """Return the fingerprint of labels, the same as Alertmanager's: FNV-1a over names and values, 16 hex digits."""
    value = _FNV_OFFSET
    for name, text in sorted(key):
        for byte in (*name.encode(), 0xFF, *text.encode(), 0xFF):
            value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return f"{value:016x}"


def _name(notification: Notification) -> str:
    return notification.alarm.active.alert.name


def _message(name: str, notifications: Sequence[Notification], runbooks: str, address: str) -> dict[str, Any]:
    alerts = [_alert(notification, runbooks, address) for notification in notifications]
    return {
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{name}"}}',
        "truncatedAlerts": 0,
        "status": "firing" if any(one.status == "firing" for one in notifications) else "resolved",
        "receiver": RECEIVER,
        "groupLabels": {"alertname": name},
        "commonLabels": _common([alert["labels"] for alert in alerts]),
        "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
        "externalURL": address,
        "alerts": alerts,
    }


def _alert(notification: Notification, runbooks: str, address: str) -> dict[str, Any]:
    alarm = notification.alarm
    active = alarm.active
    return {
        "status": notification.status,
        "labels": dict(notification.key),
        "annotations": {
            "summary": active.summary,
            "description": active.description,
            "runbook_url": f"{runbooks}/{active.alert.name}.md",
            "page_url": page_of(address, dict(notification.key)),
        },
        "startsAt": _NO_TIME if alarm.starts_us is None else _moment(alarm.starts_us),
        "endsAt": _NO_TIME if alarm.ended_us is None else _moment(alarm.ended_us),
        "generatorURL": address,
        "fingerprint": fingerprint_of(notification.key),
    }


def page_of(address: str, labels: Mapping[str, str]) -> str:
    """Return the address of the page of the stream that has these labels."""
    names = [quote(labels[name], safe="") for name in ("spark_job", "stream")]
    return f"{address}/#/streams/{'/'.join(names)}"


def _moment(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat().replace("+00:00", "Z")


def _common(many: Sequence[dict[str, str]]) -> dict[str, str]:
    first, *others = many
    return {name: text for name, text in first.items() if all(other.get(name) == text for other in others)}


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
            status = fetch(
                "POST", self._url, TIMEOUT_SECONDS, json=message, headers=bearer(self._token_file)
            ).status_code
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
