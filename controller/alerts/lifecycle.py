"""The life of an alert: it holds; it has held for long enough and somebody is notified, again after a while; it ends.

A pure state machine. A notification counts only once it is delivered, so that a lost one is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tidemark.controller.alerts.rules import ActiveAlert

Key = tuple[tuple[str, str], ...]
"""All labels of an alert, by name: they identify it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alert that holds, or whose end somebody is still to be notified of."""

    active: ActiveAlert
    """What holds, as of the newest check."""
    since_us: int
    """Since when it holds."""
    starts_us: int | None = None
    """When it had held for long enough; None before that."""
    notified_us: int | None = None
    """When a notification that it fires was last delivered; None for never."""
    ended_us: int | None = None
    """When it ended; None while it holds."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification that is due."""

    key: Key
    """Of which alert."""
    status: Literal["firing", "resolved"]
    """What the alert is now."""
    alarm: Alarm
    """All of it."""


def advance(
    alarms: Mapping[Key, Alarm], found: Iterable[ActiveAlert], now_us: int, repeat_us: int
) -> tuple[dict[Key, Alarm], list[Notification]]:
    """Return the alarms as of now, and the notifications that are due.

    Args:
        alarms: the alarms before.
        found: the alerts that hold now.
        now_us: the time, in microseconds; it should not go back.
        repeat_us: after how long a notification of what still fires is repeated, in microseconds.
    """
    holds = {active.labels: active for active in found}
    after: dict[Key, Alarm] = {}
    for key, active in holds.items():
        before = alarms.get(key)
        if before is None:
            before = Alarm(active=active, since_us=now_us)
        alarm = replace(before, active=active, ended_us=None)
        if alarm.starts_us is None and now_us - alarm.since_us >= active.alert.hold_us:
            alarm = replace(alarm, starts_us=now_us)
        after[key] = alarm
    for key, alarm in alarms.items():
        # The end of what was never notified is not notified either.
        if key not in holds and alarm.notified_us is not None:
            after[key] = alarm if alarm.ended_us is not None else replace(alarm, ended_us=now_us)
    return after, [due for key, alarm in sorted(after.items()) for due in _due(key, alarm, now_us, repeat_us)]


def _due(key: Key, alarm: Alarm, now_us: int, repeat_us: int) -> list[Notification]:
    if alarm.ended_us is not None:
        return [Notification(key, "resolved", alarm)]
    due = alarm.notified_us is None or now_us - alarm.notified_us >= repeat_us
    return [Notification(key, "firing", alarm)] if alarm.starts_us is not None and due else []


def delivered(
    alarms: Mapping[Key, Alarm], notifications: Iterable[Notification], now_us: int
) -> dict[Key, Alarm]:
    """Return the alarms once ``notifications`` were delivered, at ``now_us``."""
    after = dict(alarms)
    for notification in notifications:
        if notification.status == "resolved":
            after.pop(notification.key, None)
        elif notification.key in after:
            after[notification.key] = replace(after[notification.key], notified_us=now_us)
    return after
