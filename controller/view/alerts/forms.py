"""The forms that a destination takes: Alertmanager's webhook, Slack's incoming webhook, Grafana's annotations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidemark.controller.base.operator_file import Form
from tidemark.controller.view.alerts.message import messages
from tidemark.controller.view.alerts.rules import Notification

_MAX_ATTACHMENTS = 20
"""How many alerts one message in Slack shows; it takes 100, and nobody reads them."""

_COLOURS = {"page": "danger", "ticket": "warning"}
"""By severity the colour that Slack has a name for."""

Message = tuple[dict[str, Any] | None, list[Notification]]
"""A body and what it notifies of; None: nothing has to be sent for it."""


def in_form(form: Form, notifications: Sequence[Notification], runbooks: str, address: str) -> list[Message]:
    """Return the bodies to send, each with its notifications; of one alert that fires there may be several.

    Args:
        form: what the destination takes.
        notifications: what is due.
        runbooks: prefix of the name of a runbook's file.
        address: where a browser finds the controller.
    """
    found = messages(notifications, runbooks, address)
    if form == "slack":
        return [(_slack(message), some) for message, some in found]
    if form == "grafana":
        return [
            (None if _is_repeated(one) else _annotation(alert), [one])
            for message, some in found
            for alert, one in zip(message["alerts"], some, strict=True)
        ]
    return [*found]


def _is_repeated(notification: Notification) -> bool:
    """Return whether it says again what still fires: the mark on the graph is there already."""
    return notification.status == "firing" and notification.alarm.notified_us is not None


def _slack(message: dict[str, Any]) -> dict[str, Any]:
    alerts = message["alerts"]
    shown, more = alerts[:_MAX_ATTACHMENTS], len(alerts) - _MAX_ATTACHMENTS
    name = message["groupLabels"]["alertname"]
    text = f"{name} {'fires' if message['status'] == 'firing' else 'is over'}"
    if more > 0:
        text += f"; {more} more: {message['externalURL']}"
    return {"text": _escaped(text), "attachments": [_attachment(alert) for alert in shown]}


def _attachment(alert: dict[str, Any]) -> dict[str, Any]:
    labels, annotations = alert["labels"], alert["annotations"]
    firing = alert["status"] == "firing"
    title = f"{labels['spark_job']}/{labels['stream']}: {annotations['summary']}"
    return {
        "color": _COLOURS.get(labels["severity"], "warning") if firing else "good",
        "fallback": _escaped(title),
        "title": _escaped(title),
        "title_link": annotations["page_url"],
        "text": f"{_escaped(annotations['description'])}\n<{annotations['runbook_url']}|Runbook>",
        "ts": _seconds(alert["startsAt"] if firing else alert["endsAt"]),
    }


def _escaped(text: str) -> str:
    """Return a text in which nothing is a link, a mention or a command of Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _annotation(alert: dict[str, Any]) -> dict[str, Any]:
    """Return an annotation: a moment when it begins to fire, and afterwards the time in which it fired."""
    labels, annotations = alert["labels"], alert["annotations"]
    firing = alert["status"] == "firing"
    over = {} if firing else {"timeEnd": _seconds(alert["endsAt"]) * 1_000}
    return {
        "time": _seconds(alert["startsAt"]) * 1_000,
        **over,
        "tags": ["tidemark", alert["status"], *(f"{name}:{text}" for name, text in labels.items())],
        "text": f"{annotations['summary']}\n{annotations['page_url']}",
    }


def _seconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp())
