"""Recent progress of a stream: its pace, its lag behind the clock, and which partitions have fallen silent.

Delays measured while a job catches up, replays or waits for a stalled source are not those of the stream, and rows of
silent partitions may arrive late. So they allow no narrowing (``recommend/guard_rails``). The same figures tell how
long a change takes (``transition``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tidemark.models.base.defaults import (
    MIN_BATCHES_OF_A_PACE,
    MIN_BATCHES_OF_A_PARTITION,
    NO_DATA_GAPS,
    RECENT_BATCHES,
    SILENT_PARTITION_GAPS,
)
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.base.target import PPM
from tidemark.models.evidence.horizon import UNKNOWN

PACE_COLUMNS = ("started_us", "duration_ms", "late_base_ms", "max_event_time_us")
"""The columns of a batch that progress follows from: trigger, duration, base of the late filter, newest event time."""


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """When one partition was seen."""

    first_seen_us: int
    """Trigger time of the first batch that held a row of it, in microseconds."""
    last_seen_us: int
    """Trigger time of the newest such batch, in microseconds."""
    batches: int

    def seen_at(self, seen_us: int) -> PartitionTimes:
        """Return the times after one more batch with a row of it, triggered at ``seen_us``."""
        return PartitionTimes(
            min(self.first_seen_us, seen_us), max(self.last_seen_us, seen_us), self.batches + 1
        )

    def silent_at(self, now_us: int, batch_gap_us: int) -> bool:
        """Return whether it used to report and has been silent too long for its own mean gap and the stream's gap."""
        if self.batches < MIN_BATCHES_OF_A_PARTITION:
            return False
        own_gap_us = (self.last_seen_us - self.first_seen_us) // (self.batches - 1)
        return now_us - self.last_seen_us > SILENT_PARTITION_GAPS * max(own_gap_us, batch_gap_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a stream. None: unknown, because of too few batches or no rows yet."""

    batch_gap_us: int | None
    """Typical time between the triggers of two batches (the median), in microseconds."""
    silent_us: int | None
    """Time since the newest report was received, in microseconds."""
    pace_ppm: int | None
    """Event time by which the base moved per wall time, over all batches given, in parts per million: 1,000,000 is as
    fast as the clock."""
    recent_pace_ppm: int | None
    """The same over the last ``RECENT_BATCHES`` batches."""
    lag_us: int | None
    """Wall time of the newest batch's end minus the base, in microseconds."""
    usual_lag_us: int | None
    """The median of that over all batches given, in microseconds."""
    silent_partitions: int
    """Partitions that used to report and have been silent for long."""

    @property
    def fell_silent(self) -> bool:
        """Whether no report has come for longer than a slow batch explains."""
        silent_us, gap_us = self.silent_us, self.batch_gap_us
        return silent_us is not None and gap_us is not None and silent_us > NO_DATA_GAPS * gap_us


UNKNOWN_PROGRESS = Progress(
    batch_gap_us=None,
    silent_us=None,
    pace_ppm=None,
    recent_pace_ppm=None,
    lag_us=None,
    usual_lag_us=None,
    silent_partitions=0,
)
"""The progress of a stream of which nothing is known."""


def progress_of_table(
    batches: Int64s, partitions: Iterable[PartitionTimes], *, silent_us: int | None = None
) -> Progress:
    """Return the progress of a stream.

    Args:
        batches: ``PACE_COLUMNS`` of the newest batches of one query in order, at most ``PACE_BATCHES``, ``UNKNOWN``
            where something is not known, shape (batches, 4).
        partitions: all partitions that count.
        silent_us: time since the newest report was received, in microseconds; None without reports.
    """
    has_pace = len(batches) >= MIN_BATCHES_OF_A_PACE
    started = batches[:, 0]
    gap_us = int(np.median(np.diff(started))) if has_pace else None
    wall_us, base_us = _bases(batches)
    lag = wall_us - base_us
    newest_us = int(started[-1]) if len(started) else 0
    return Progress(
        batch_gap_us=gap_us if gap_us is not None and gap_us > 0 else None,
        silent_us=silent_us,
        pace_ppm=_pace_ppm(wall_us, base_us),
        recent_pace_ppm=_pace_ppm(wall_us[-RECENT_BATCHES - 1 :], base_us[-RECENT_BATCHES - 1 :]),
        lag_us=int(lag[-1]) if len(lag) else None,
        usual_lag_us=int(np.median(lag)) if len(lag) >= MIN_BATCHES_OF_A_PACE else None,
        silent_partitions=0
        if gap_us is None
        else sum(partition.silent_at(newest_us, gap_us) for partition in partitions),
    )


def _bases(batches: Int64s) -> tuple[Int64s, Int64s]:
    """Return the end of each batch and the base after it, from the first that has a base, shapes (n,)."""
    started_us, duration_ms, late_ms, max_us = batches.T
    seen_ms = np.where(max_us == UNKNOWN, UNKNOWN, max_us // SPARK_TICK_US)
    base_ms = np.maximum.accumulate(np.maximum(late_ms, seen_ms))
    has_base = base_ms > UNKNOWN
    return (started_us + duration_ms * 1_000)[has_base], base_ms[has_base] * SPARK_TICK_US


def _pace_ppm(wall_us: Int64s, base_us: Int64s) -> int | None:
    if len(wall_us) < MIN_BATCHES_OF_A_PACE or wall_us[-1] <= wall_us[0]:
        return None
    return int(base_us[-1] - base_us[0]) * PPM // int(wall_us[-1] - wall_us[0])
