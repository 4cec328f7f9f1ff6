"""What the live policy does, in sentences: what it waits for, what that costs, what it loses, and who delivers late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemark.models.base.duration import format_about
from tidemark.models.base.operators import Operator, SessionWindow, TimeWindow
from tidemark.models.base.text import format_number, plural
from tidemark.models.live.rules import Outlook
from tidemark.models.live.stream_clock import FeedProgress

_LONG_SPANS = 2
"""Silences of so many spans are said."""


def behind(lag_us: int) -> str:
    """Return that the feed as a whole is behind the clock, by so many microseconds."""
    return (
        f"the feed is {format_about(lag_us)} behind the clock, so it follows the newest event time read: what comes "
        "now is a backlog and not late"
    )


def waiting(operator: Operator, outlook: Outlook, wait_us: int) -> str:
    """Return what is waited for, for ``wait_us`` microseconds, what that costs and what it loses."""
    match operator:
        case TimeWindow():
            end, one, results = "a window's end", "a window", "results come"
        case SessionWindow():
            end, one, results = "a session's end", "a session", "results come"
        case _:
            end, one, results = "their time", "a trigger", "state is kept"
    waits = f"it waits for no row after {end}"
    if wait_us > 0:
        age = format_about(wait_us)
        waits = f"it waits for rows that come within {age} of {end}, so that {results} {age} later"
    if outlook.holds:
        waits += ", and longer for rows that are missing"
    later = outlook.late_rows_a_key
    if not later:
        return f"{waits}; no row has come later still"
    return f"{waits}; about {format_number(later, 2)} rows of {one} come later still and are lost"


def deliveries(feed: FeedProgress, partitions: Sequence[str], span_us: int, *, waited_for: bool) -> list[str]:
    """Return what is said of the partition with the most rows of those that deliver at once after a silence."""
    at_once = np.flatnonzero(feed.delivers[1:] & (feed.gap_us[1:] > _LONG_SPANS * span_us))
    if not len(at_once):
        return []
    number = int(at_once[feed.rows[1:][at_once].argmax()])
    name = partitions[number] if number < len(partitions) else f"number {number}"
    gap, share = format_about(int(feed.gap_us[number + 1])), feed.rows[number + 1] / feed.rows[1:].sum()
    verb = "is not waited for, because that costs more than its rows"
    if waited_for:
        verb = "is waited for then"
    rest = f", as {plural(len(at_once) - 1, 'other partition')}" if len(at_once) > 1 else ""
    return [
        f"partition {name} ({share:.1%} of the rows) delivers after up to {gap} of silence{rest}: it {verb}"
    ]
