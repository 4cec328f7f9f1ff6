"""``tidemark windows`` and ``tidemark wait``: how complete windows are, and a wait until one is."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from tidemark.controller.tools.cli.options import duration_of, read_option
from tidemark.controller.tools.cli.run import CommandAnswer
from tidemark.controller.tools.cli.show import moment, percent, say, table
from tidemark.models.base.target import PPM, parse_target

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.windows import Window
    from tidemark.controller.tools.client.client import Client

NOT_IN_TIME, UNREACHABLE = 3, 4
"""Exit codes of a wait: the share was not reached in time, and cannot be reached any more."""


def windows(
    tidemark: Client, job: str, stream: str, *, state: str | None, share: str | None, limit: int
) -> CommandAnswer:
    """Show the newest windows of a stream: what has come, what the result has of it, and what is to come."""
    of_state = None if state is None else state.capitalize()
    listed = list(islice(tidemark.windows(job, stream, of_state, _share_ppm(share)), limit))
    columns = ("window's end", "state", "rows", "late", "expected", "has come", "counted", "")
    empty = f"no window of {job}/{stream} is known yet"
    return CommandAnswer({"windows": listed}, lambda: table(columns, map(_cells, listed), empty))


def wait(
    tidemark: Client, job: str, stream: str, *, window: str, share: str | None, timeout: str
) -> CommandAnswer:
    """Wait until a share of a window's rows has come and counts."""
    end_us = read_option(_time_us, window, "--window")
    seconds = duration_of(timeout, "--timeout") / 1_000_000
    found = tidemark.wait_for_window(job, stream, end_us, _share_ppm(share), timeout_seconds=seconds)
    code = {"Reached": 0, "Unreachable": UNREACHABLE}.get(found.outcome, NOT_IN_TIME)
    return CommandAnswer(found, lambda: say(_sentence(found)), code=code)


def _share_ppm(share: str | None) -> int | None:
    return None if share is None else read_option(parse_target, share, "--share")


def _time_us(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError(f"{text!r} is no time with a zone; write it as in 2026-11-28T09:00Z")
    return round(time.timestamp()) * 1_000_000


def _cells(row: Window) -> tuple[str, ...]:
    expected, note = "-", f"not known: {row.unknown}"
    if row.estimate is not None:
        found = row.estimate
        expected = f"{found.expected:,}"
        if found.expected_min != found.expected_max:
            expected += f" ({found.expected_min:,} to {found.expected_max:,})"
        silent = (f"{one.partition} ({found.expected * one.share_ppm // PPM:,} rows)" for one in found.silent)
        note = f"silent: {', '.join(silent)}" if found.silent else ""
    return (
        moment(row.end_us),
        f"{row.state}, settled" if row.estimate is not None and row.estimate.settled else row.state,
        f"{row.rows:,}",
        f"{row.late_max:,}",
        expected,
        _come(row),
        percent(row.counted_min_ppm),
        note,
    )


def _come(row: Window) -> str:
    if row.estimate is None:
        return percent(None)
    likely, least = percent(row.estimate.came_ppm), percent(row.estimate.came_min_ppm)
    return likely if likely == least else f"{likely} (at least {least})"


def _sentence(row: Window) -> str:
    asked, end = percent(row.asked_ppm), moment(row.end_us)
    counted = f"of {row.rows:,} rows that have come the result has {percent(row.counted_min_ppm)}"
    match row.outcome:
        case "Reached":
            return f"the window that ends {end} is complete to {asked}: {_come(row)} has come; {counted}"
        case "Unreachable":
            return f"the window that ends {end} cannot reach {asked} any more: it is closed, and {counted}"
        case "NotKnown":
            return f"not in time: how complete the window that ends {end} is, is not known: {row.unknown}"
        case "NotYet":
            come = f"of the window that ends {end}, {_come(row)} has come"
            return f"not in time: {come}, {asked} is asked for; {counted}"
