"""What is said of a window: what has come of it, what counts, what it will become, and how right that was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WindowState = Literal["Open", "Closed"]
WindowOutcome = Literal["Reached", "NotYet", "Unreachable", "NotKnown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentPartition:
    """A partition that fell silent before a window was full."""

    partition: str
    """Its name."""
    share_ppm: int
    """The share of the window's rows that it usually has and lacks, in parts per million."""
    newest_us: int
    """Its newest event time, in microseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowScore:
    """What would have been said of windows before at the same age, by those before them alone."""

    windows: int
    """Windows that were bounded."""
    within: int
    """Those whose final rows lay within the interval."""
    settled: int
    """Those that would have been called settled."""
    rightly: int
    """Those of them that were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEstimate:
    """What a window will become, each with its interval of 95 %."""

    expected: int
    """Rows expected in the end."""
    expected_min: int
    """Never below the rows so far."""
    expected_max: int
    came_ppm: int
    """Of the rows that will ever come, the share that has come, in parts per million."""
    came_min_ppm: int
    came_max_ppm: int
    settled: bool
    """Whether ``came_min_ppm`` has reached the share asked for: no more is expected than that leaves open."""
    reached_us: int | None
    """Event time that the stream will have reached when the share will probably have come, in microseconds since the
    epoch; null when the window is settled."""
    reached_max_us: int | None
    """The same with 95 %; null also when it is not known."""
    silent: list[SilentPartition]
    """Partitions that fell silent before the window was full, those that lack most first."""
    score: WindowScore
    """How right such estimates were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestWindows:
    """How far a stream's windows are, and what became of the newest one of which it can be said. Nulls are unknown."""

    report_id: int
    """The newest report as of which it is."""
    asked_ppm: int
    """The share by which a window is settled, in parts per million."""
    settled_us: int | None
    """End of the newest settled window, in microseconds since the epoch."""
    closed_us: int | None
    """End of the newest closed one, which is settled too where that is known: most of its late rows have come."""
    rows: int
    """Rows of the newest closed one that have come."""
    late_min: int
    """Those that were certainly late."""
    late_max: int
    """Those that may have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One window, as of the stream's newest batch. Rows are (row, window) pairs."""

    end_us: int
    """Its end, in microseconds since the epoch; of an operator without windows the end of a minute."""
    state: WindowState
    """Open: rows can still be counted; Closed: the watermark has passed it, and what the result has of it stays."""
    asked_ppm: int
    """The share asked for, in parts per million."""
    outcome: WindowOutcome
    """Reached: of the rows that will ever come the share has come, and the result has that share of these; NotYet;
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
    estimate: WindowEstimate | None
    """What it will become; null when that is not known."""
    unknown: str | None
    """Why it is not known; null when it is."""
