"""Windows of a stream, and how complete they are."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, Page
from tidemark.models.completeness.outcome import Score, WindowOutcome, WindowState


class SilentInWindow(Answer):
    """A partition that fell silent before a window was full."""

    partition: str
    """Its name."""
    share_ppm: int
    """The share of the window's rows that it usually has and lacks, in parts per million."""
    rows: int
    """As many of the rows expected."""
    newest_us: int
    """Its newest event time, in microseconds since the epoch."""


class Window(Answer):
    """One window, as of the stream's newest batch. Rows are (row, window) pairs."""

    end_us: int
    """Its end, in microseconds since the epoch; of an operator without windows the end of a minute."""
    state: WindowState
    """Open: rows can still be counted; Closed: the watermark has passed it, and what the result has of it stays."""
    asked_ppm: int
    """The share asked for, in parts per million."""
    outcome: WindowOutcome
    """Reached: of the rows that will ever come the share has come, and of these the result has it; NotYet;
    Unreachable: the window is closed, and too many of its rows were late; NotKnown: there is no estimate."""
    rows: int
    """Rows that have come."""
    late_min: int
    """Those that were certainly late, so that the result lacks them."""
    late_max: int
    """Those that may have been."""
    counted_min_ppm: int | None
    """Of the rows that have come, the share that the result certainly has, in parts per million; null without rows."""
    counted_max_ppm: int | None
    """The share that it may have."""
    unknown: str | None
    """Why it is not known what the window will become; null when it is. What follows is null then, but ``silent``."""
    expected_rows: int | None
    """Rows expected in the end."""
    expected_min_rows: int | None
    """Lower end of their interval, 95 %."""
    expected_max_rows: int | None
    """Upper end."""
    came_ppm: int | None
    """Of the rows that will ever come, the share that has come, in parts per million."""
    came_min_ppm: int | None
    """Lower end of its interval."""
    came_max_ppm: int | None
    """Upper end."""
    settled: bool | None
    """Whether no more than the share asked for leaves open is expected: ``came_min_ppm`` has reached it."""
    reached_us: int | None
    """Event time that the stream will have reached when the share will probably have come, in microseconds since the
    epoch; null when it has."""
    reached_max_us: int | None
    """The same with 95 %; null also when it is not known."""
    silent: list[SilentInWindow]
    """Partitions that fell silent before the window was full, those that lack most first."""
    score: Score | None
    """How right such estimates were of the windows before."""


class WindowPage(Page):
    """A page of windows, the newest first."""

    windows: list[Window]
    """The windows."""
