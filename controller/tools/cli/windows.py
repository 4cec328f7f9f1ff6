"""``tidemark windows`` and ``tidemark wait``: how complete windows are, and a wait until one is."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from tidemark.controller.tools.cli.options import duration_of, read_option
from tidemark.controller.tools.cli.run import CommandAnswer
from tidemark.controller.tools.cli.show import moment, percent, say, table
from tidemark.models.base.target import parse_target

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
    expected = "-"
    if row.expected_rows is not None:
        expected = f"{row.expected_rows:,}"
        if row.expected_min_rows != row.expected_max_rows:
            expected += f" ({row.expected_min_rows:,} to {row.expected_max_rows:,})"
    return (
        moment(row.end_us),
        f"{row.state}, settled" if row.settled else row.state,
        f"{row.rows:,}",
        f"{row.late_max:,}",
        expected,
        _at_least(row),
        percent(row.counted_min_ppm),
        _note(row),
    )


def _at_least(row: Window) -> str:
    if row.came_ppm == row.came_min_ppm:
        return percent(row.came_ppm)
    return f"{percent(row.came_ppm)} (at least {percent(row.came_min_ppm)})"


def _note(row: Window) -> str:
    if row.unknown is not None:
        return f"not known: {row.unknown}"
    silent = ", ".join(f"{one.partition} ({one.rows:,} rows)" for one in row.silent)
    return f"silent: {silent}" if silent else ""


def _sentence(row: Window) -> str:
    asked, end = percent(row.asked_ppm), moment(row.end_us)
    counted = f"of {row.rows:,} rows that have come the result has {percent(row.counted_min_ppm)}"
    match row.outcome:
        case "Reached":
            return f"the window that ends {end} is complete to {asked}: {_at_least(row)} has come; {counted}"
        case "Unreachable":
            return f"the window that ends {end} cannot reach {asked} any more: it is closed, and {counted}"
        case "NotKnown":
            return f"not in time: how complete the window that ends {end} is, is not known: {row.unknown}"
        case "NotYet":
            come = f"of the window that ends {end}, {_at_least(row)} has come"
            return f"not in time: {come}, {asked} is asked for; {counted}"
