"""What the live policy does, in sentences: what it waits for, what that costs, what it loses, and who delivers late."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tidemark.models.base.duration import format_about
from tidemark.models.base.operators import Operator, SessionWindow, TimeWindow
from tidemark.models.base.target import PPM
from tidemark.models.base.text import format_number, plural
from tidemark.models.live.cycles import Rush
from tidemark.models.live.defaults import PRICE_WAIT_SPANS
from tidemark.models.live.policy import Setup
from tidemark.models.live.rules import Outlook
from tidemark.models.live.stream_clock import FeedProgress
from tidemark.models.recommend.steps import DecisionStep, StepKind

_DAYS = ("Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday")
_HOUR_US = 3_600_000_000
_LONG_SPANS = 2
"""Silences of so many spans are said."""


def rule_steps(setup: Setup, outlook: Outlook, rows_a_key: float, verdict: str) -> tuple[DecisionStep, ...]:
    """Return what a rule waits for and why.

    Args:
        setup: the problem.
        outlook: what the rule does.
        rows_a_key: mean number of pairs per key.
        verdict: why this one is followed.
    """

    def about(triggers: float) -> str:
        return format_about(round(triggers * setup.trigger_us))

    key = "window" if isinstance(setup.operator, TimeWindow) else "key"
    rows = format_number(outlook.price * (PPM - setup.target_ppm) / PPM * rows_a_key, 2)
    wait = about(PRICE_WAIT_SPANS * setup.span_triggers)
    worth = f"waiting {wait} longer is worth {rows} rows of a {key} (price {format_number(outlook.price)})"
    evidence = "all rows so far"
    if outlook.memory < math.inf:
        evidence = f"rows with a half-life of {about(outlook.memory)}"
    later = format_number(outlook.late_rows_a_key, 2)
    left = (
        f"by {evidence}, a {key} that closes {about(outlook.usual_age)} after its end gets {later} rows later"
    )
    hold = "missing rows are not waited for, because that has not been worth it so far"
    if outlook.holds:
        hold = "missing rows are waited for, at most as long as they are worth"
    steps = [(StepKind.RULE, f"{worth}; {verdict}"), (StepKind.AGE, left), (StepKind.HOLD, hold)]
    if outlook.rush is not None:
        now = f"a {key} waits for them {about(outlook.age)} now"
        if outlook.age <= outlook.usual_age:
            now = f"no {key} waits for them yet"
        steps.append((StepKind.CYCLE, f"{_rush(outlook.rush)}; {now}"))
    return tuple(DecisionStep(kind, None, reason) for kind, reason in steps)


def _rush(rush: Rush) -> str:
    """Return when most rows come that are waited for by the time of the hour, day or week."""
    begin, end = (_time(rush.period_us, at_us) for at_us in (rush.begin_us, rush.end_us))
    period = {_HOUR_US: "an hour", 24 * _HOUR_US: "a day"}.get(rush.period_us, "a week")
    return f"between {begin} and {end} UTC rows usually come late: {rush.share:.2%} of those of {period}"


def _time(period_us: int, at_us: int) -> str:
    """Return a time of a period in words: Friday 20:00, 20:00, or the minute of an hour."""
    if period_us == _HOUR_US:
        seconds = at_us // 1_000_000
        return f"hh:{seconds // 60:02d}:{seconds % 60:02d}"
    minutes = at_us // 60_000_000
    if period_us == 24 * _HOUR_US:
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{_DAYS[minutes // 1_440 % 7]} {minutes // 60 % 24:02d}:{minutes % 60:02d}"


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
    if outlook.age > outlook.usual_age:
        return f"{waits}, as rows usually come late at this time"
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
