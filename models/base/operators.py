"""What the watermark is compared with: the key of a row, by the kind of stateful operator.

A row is late when its *key* is at or below the watermark, and the key depends on the operator (Spark 4.2,
``statefulOperators.scala``, ``WatermarkSupport.watermarkExpression``; measured, see the tests in ``tests/spark_jobs``):

* a windowed aggregate compares the end of each window that holds the row, so one row of a sliding window has
  several keys and is counted once for each: completeness is over (row, window) pairs;
* a session window compares the end of the row's own session, event time + gap, even if it would merge into a larger;
* ``dropDuplicatesWithinWatermark``, stream-stream joins and ``transformWithState`` compare the event time itself.

All times are whole microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Le

from tidemark.models.base.duration import format_duration, parse_duration
from tidemark.models.base.ranges import MAX_TIME_US, LengthUs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Closed = Literal["left", "right"]
"""Which edge belongs to a granule: ``left`` is ``[a, b)``, ``right`` is ``(a, b]``."""

Int64s: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A tumbling (``slide_us == size_us``) or sliding window over event time, as ``pyspark.sql.functions.window``."""

    size_us: LengthUs
    """Length of a window in microseconds."""
    slide_us: LengthUs
    """Distance between the starts of two windows in microseconds; at most ``size_us``."""
    start_us: Annotated[int, Ge(0), Le(MAX_TIME_US)] = 0
    """Offset of the window grid from the epoch in microseconds, ``startTime`` in Spark."""
    kind: Literal["window"] = "window"

    closed: ClassVar[Closed] = "left"

    def __post_init__(self) -> None:
        """Reject a slide that is not in (0, size], as Spark does."""
        if not 0 < self.slide_us <= self.size_us:
            raise ValueError(
                f"slide {format_duration(self.slide_us)} must be above 0 and at most the window's size "
                f"{format_duration(self.size_us)}"
            )

    def keys(self, event_time_us: Int64s) -> tuple[Int64s, Int64s]:
        """Return ``(row, key_us)``: for each (row, window) pair the row's index and the window's end."""
        import numpy as np  # noqa: PLC0415 - the command line reads wire types, and starts fast without it

        last_start = event_time_us - (event_time_us - self.start_us) % self.slide_us
        rows, ends = [], []
        everything = _indices(event_time_us)
        for step in range(self.max_keys):
            end = last_start + self.size_us - step * self.slide_us
            inside = end > event_time_us
            rows.append(everything[inside])
            ends.append(end[inside])
        return np.concatenate(rows), np.concatenate(ends)

    @property
    def span_us(self) -> int:
        """Event time from the opening of a key to its end: the window's length, in microseconds."""
        return self.size_us

    @property
    def max_keys(self) -> int:
        """Maximum number of windows that one row can be in."""
        return -(-self.size_us // self.slide_us)

    def granule_fits(self, granule_us: int) -> bool:
        """Whether all times of a granule always share their windows, so that counts by granule are exact."""
        return not (self.size_us % granule_us or self.slide_us % granule_us or self.start_us % granule_us)

    def __str__(self) -> str:
        """Name the window as a person would."""
        if self.slide_us == self.size_us:
            return f"tumbling window of {format_duration(self.size_us)}"
        return f"sliding window of {format_duration(self.size_us)} every {format_duration(self.slide_us)}"


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """A session window with a fixed gap, as ``pyspark.sql.functions.session_window``."""

    gap_us: LengthUs
    """The gap that ends a session, in microseconds."""
    kind: Literal["session"] = "session"

    closed: ClassVar[Closed] = "right"
    max_keys: ClassVar[int] = 1

    def keys(self, event_time_us: Int64s) -> tuple[Int64s, Int64s]:
        """Return ``(row, key_us)``: each row once, with event time + gap."""
        return _indices(event_time_us), event_time_us + self.gap_us

    @property
    def span_us(self) -> int:
        """Event time from a row to the end of its session: the gap, in microseconds."""
        return self.gap_us

    def granule_fits(self, granule_us: int) -> bool:  # noqa: ARG002 - one signature for every operator
        """Any granule fits: where the watermark cuts one, the ledger gives an interval."""
        return True

    def __str__(self) -> str:
        """Name the window as a person would."""
        return f"session window with a gap of {format_duration(self.gap_us)}"


@dataclass(frozen=True, slots=True)
class RowLevel:
    """Deduplication within the watermark, stream-stream joins, ``transformWithState``: the key is the event time."""

    kind: Literal["row"] = "row"

    closed: ClassVar[Closed] = "right"
    max_keys: ClassVar[int] = 1
    span_us: ClassVar[int] = 0
    """Event time from a row to its key, in microseconds: they are the same."""

    def keys(self, event_time_us: Int64s) -> tuple[Int64s, Int64s]:
        """Return ``(row, key_us)``: each row once, with its event time."""
        return _indices(event_time_us), event_time_us

    def granule_fits(self, granule_us: int) -> bool:  # noqa: ARG002 - one signature for every operator
        """Any granule fits: where the watermark cuts one, the ledger gives an interval."""
        return True

    def __str__(self) -> str:
        """Name the operator as a person would."""
        return "row-level operator"


Operator = TimeWindow | SessionWindow | RowLevel


def tumbling(size: str, start: str = "0") -> TimeWindow:
    """Return the tumbling window that ``window(ts, size, startTime=start)`` makes in Spark."""
    size_us = parse_duration(size)
    return _window(size_us, size_us, start)


def sliding(size: str, slide: str, start: str = "0") -> TimeWindow:
    """Return the sliding window that ``window(ts, size, slide, start)`` makes in Spark."""
    return _window(parse_duration(size), parse_duration(slide), start)


def session(gap: str) -> SessionWindow:
    """Return the session window that ``session_window(ts, gap)`` makes in Spark."""
    gap_us = parse_duration(gap)
    if gap_us <= 0:
        raise ValueError(f"session gap {gap!r} must be above 0")
    return SessionWindow(gap_us)


def row_level() -> RowLevel:
    """Return the operator whose key is the event time itself."""
    return RowLevel()


def call_for(operator: Operator) -> str:
    """Return the call that declares ``operator`` in a job."""

    def text(time_us: int) -> str:
        shown = format_duration(time_us)
        return f'"{shown}"' if parse_duration(shown) == time_us else f'"{time_us} us"'

    if isinstance(operator, SessionWindow):
        return f"session({text(operator.gap_us)})"
    if not isinstance(operator, TimeWindow):
        return "row_level()"
    size, start = text(operator.size_us), f", start={text(operator.start_us)}" if operator.start_us else ""
    if operator.slide_us == operator.size_us:
        return f"tumbling({size}{start})"
    return f"sliding({size}, {text(operator.slide_us)}{start})"


def _indices(rows: Int64s) -> Int64s:
    import numpy as np  # noqa: PLC0415 - as above

    return np.arange(len(rows), dtype=np.int64)


def _window(size_us: int, slide_us: int, start: str) -> TimeWindow:
    if size_us <= 0 or slide_us <= 0:
        size, slide = format_duration(size_us), format_duration(slide_us)
        raise ValueError(f"window size {size} and slide {slide} must be above 0")
    # The grid repeats every slide, so a negative start (a time zone west of UTC) has an equal one in [0, slide).
    return TimeWindow(size_us, slide_us, parse_duration(start) % slide_us)
