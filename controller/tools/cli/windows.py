"""``tidemark windows`` and ``tidemark wait``: how complete windows are, and a wait until one is."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from tidemark.controller.tools.cli.options import duration_of, read_option
from tidemark.controller.tools.cli.run import CommandAnswer
from tidemark.controller.tools.cli.show import moment, percent, say, table
from tidemark.controller.tools.client.window_text import (
    parse_end,
    rows_expected,
    sentence,
    share_come,
    silent_partitions,
)
from tidemark.models.base.duration import format_duration
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
    tidemark: Client, job: str, stream: str, *, window: str, span: str | None, share: str | None, timeout: str
) -> CommandAnswer:
    """Wait until a share of the rows of a window, or of the windows of a span, has come and counts."""
    end_us = read_option(parse_end, window, "--window")
    seconds = duration_of(timeout, "--timeout") / 1_000_000
    span_us = duration_of(span, "--span") if span else 0
    found = tidemark.wait_for_window(
        job, stream, end_us, timeout_seconds=seconds, share_ppm=_share_ppm(share), span_us=span_us
    )
    code = {"Reached": 0, "Unreachable": UNREACHABLE}.get(found.outcome, NOT_IN_TIME)
    name = f"span of {format_duration(span_us)}" if span_us else "window"
    text = f"{'not in time: ' if code == NOT_IN_TIME else ''}{sentence(found, name)}"
    return CommandAnswer(found, lambda: say(text), code=code)


def _share_ppm(share: str | None) -> int | None:
    return None if share is None else read_option(parse_target, share, "--share")


def _cells(row: Window) -> tuple[str, ...]:
    return (
        moment(row.end_us),
        f"{row.state}, settled" if row.estimate is not None and row.estimate.settled else row.state,
        f"{row.rows:,}",
        f"{row.late_max:,}",
        rows_expected(row),
        share_come(row),
        percent(row.counted_min_ppm),
        silent_partitions(row) if row.unknown is None else f"not known: {row.unknown}",
    )
