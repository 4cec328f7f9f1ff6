"""The life of an alert: it holds, it has held for long enough and is told, told again, and told to be over.

A pure state machine. What was told is remembered only once it was delivered, so that what was lost is told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tidemark.controller.alerts.findings import Finding

__all__ = ["Alarm", "Key", "News", "advance", "told"]

Key = tuple[tuple[str, str], ...]
"""All labels of an alert, by name: one alert has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One alert that holds, or has until it is told that it is over."""

    finding: Finding
    """What holds, as it was found last."""
    since_us: int
    """Since when it holds."""
    starts_us: int | None = None
    """When it had held for long enough; None before that."""
    told_us: int | None = None
    """When it was last delivered that it fires; None when it never was."""
    ended_us: int | None = None
    """When it was over; None while it holds."""


@dataclass(frozen=True, slots=True)
class News:
    """Something to tell."""

    key: Key
    """Of which alert."""
    status: Literal["firing", "resolved"]
    """What it is now."""
    alarm: Alarm
    """All of it."""


def advance(
    alarms: Mapping[Key, Alarm], found: Iterable[Finding], now_us: int, repeat_us: int
) -> tuple[dict[Key, Alarm], list[News]]:
    """Return how things stand and what is to be told.

    Args:
        alarms: how things stood.
        found: what holds now.
        now_us: the time, in microseconds; it should not go back.
        repeat_us: after how long what still fires is told again, in microseconds.
    """
    holds = {finding.labels: finding for finding in found}
    after: dict[Key, Alarm] = {}
    for key, finding in holds.items():
        before = alarms.get(key)
        if before is None:
            before = Alarm(finding=finding, since_us=now_us)
        alarm = replace(before, finding=finding, ended_us=None)
        if alarm.starts_us is None and now_us - alarm.since_us >= finding.alert.hold_us:
            alarm = replace(alarm, starts_us=now_us)
        after[key] = alarm
    for key, alarm in alarms.items():
        # What nobody was told of need not be taken back.
        if key not in holds and alarm.told_us is not None:
            after[key] = alarm if alarm.ended_us is not None else replace(alarm, ended_us=now_us)
    return after, [
        news for key, alarm in sorted(after.items()) for news in _news(key, alarm, now_us, repeat_us)
    ]


def _news(key: Key, alarm: Alarm, now_us: int, repeat_us: int) -> list[News]:
    if alarm.ended_us is not None:
        return [News(key, "resolved", alarm)]
    due = alarm.told_us is None or now_us - alarm.told_us >= repeat_us
    return [News(key, "firing", alarm)] if alarm.starts_us is not None and due else []


def told(alarms: Mapping[Key, Alarm], delivered: Iterable[News], now_us: int) -> dict[Key, Alarm]:
    """Return how things stand once ``delivered`` was delivered, at ``now_us``."""
    after = dict(alarms)
    for news in delivered:
        if news.status == "resolved":
            after.pop(news.key, None)
        elif news.key in after:
            after[news.key] = replace(after[news.key], told_us=now_us)
    return after
