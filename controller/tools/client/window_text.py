"""A window as people write and read it: its end as a time with a zone, and what is so of it in a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemark.controller.base.clock import utc_text
from tidemark.models.base.target import PPM, format_share

if TYPE_CHECKING:
    from tidemark.models.completeness.outcome import Window


def parse_end(text: str) -> int:
    """Return the end of a window in microseconds since the epoch, from a time with a zone.

    Raises:
        ValueError: when it is none.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError(f"{text!r} is no time with a zone; write it as in 2026-11-28T09:00Z")
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


def share_come(window: Window) -> str:
    """Return the share of a window that has come, and its lower end where that is another."""
    if window.estimate is None:
        return "-"
    likely, least = format_share(window.estimate.came_ppm), format_share(window.estimate.came_min_ppm)
    return likely if likely == least else f"{likely} (at least {least})"


def rows_expected(window: Window) -> str:
    """Return how many rows are expected in the end, with their interval where there is one."""
    if window.estimate is None:
        return "-"
    found = window.estimate
    interval = f" ({found.expected_min:,} to {found.expected_max:,})"
    return f"{found.expected:,}{interval if found.expected_min != found.expected_max else ''}"


def silent_partitions(window: Window) -> str:
    """Return the partitions that are missing, and what they are worth; empty when none is."""
    if window.estimate is None or not window.estimate.silent:
        return ""
    rows = window.estimate.expected
    silent = (f"{one.partition} ({rows * one.share_ppm // PPM:,} rows)" for one in window.estimate.silent)
    return f"silent: {', '.join(silent)}"


def sentence(window: Window, span: str = "window") -> str:
    """Return whether the share asked for has come and counts, and what is missing."""
    asked, name = format_share(window.asked_ppm), f"the {span} that ends {utc_text(window.end_us)}"
    share = "-" if window.counted_min_ppm is None else format_share(window.counted_min_ppm)
    counted = f"of {window.rows:,} rows that have come the result has {share}"
    match window.outcome:
        case "Reached":
            return f"{name} is complete to {asked}: {share_come(window)} has come; {counted}"
        case "Unreachable":
            return f"{name} cannot reach {asked} any more: it is closed, and {counted}"
        case "NotKnown":
            return f"it is not known how complete {name} is: {window.unknown}"
        case "NotYet":
            come = f"of {name}, {share_come(window)} has come, {asked} is asked for"
            expected = f"{rows_expected(window)} rows are expected"
            return "; ".join(filter(None, (come, expected, counted, silent_partitions(window))))
