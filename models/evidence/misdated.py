"""Misdated rows: event times that no delay explains, such as those of 1970 among those of today.

A producer that writes seconds where the others write milliseconds dates its rows January 1970. Spark drops them as
late, and so the ledger counts them: they are lost. But they say nothing about delays. The bound that admitted them
would be 20,000 days, so they are no evidence for it, nor against the bound in use. A row is misdated if

* it is older than ``LONGEST_DELAY_US`` behind the base, which is the newest event time that its watermark knew; or
* it lies as far behind its arrival, and times 1,000 or 1,000,000 it lies near it. This holds without a base, and where
  every row is a factor off. An age behind the arrival is not enough: a replay of old data is no fault.

Rows far in the future are filtered out before they count: see ``limit_us``, and ``future_rows`` in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.duration import format_duration
from tidemark.models.base.granules import SPARK_TICK_US, granule_first_us
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.key_counts import ReportCells, cells_of
from tidemark.models.evidence.slots import DAY_US, HOUR_US
from tidemark.models.protocol.messages import Report

LONGEST_DELAY_US = 366 * DAY_US
"""The longest delay that is plausible, in microseconds.

Chosen: phones come online after weeks and corrections are applied after months, and such rows must count. An SLO's
window has 31 days at most, so that no bound for a row a year late can be wanted; and the wrong dates that occur (1970,
1980, 2000) are further off. It is no setting: evidence that was counted must be counted the same when it is read again.
"""

_TOO_SMALL = {1_000: "seconds read as milliseconds", 1_000_000: "seconds read as microseconds"}
"""What makes times so many times too small."""

_TOO_LARGE = 500
"""How many times too large a time must be for its unit to be the reason: the factor is 1,000, but the tap reports no
time beyond 36,000 years."""

_EPOCH_YEAR = 1970
_LAST_YEAR = 9_999


def misdated(
    event_time_us: Int64s, base_us: Int64s | int | None, arrival_us: Int64s | int
) -> NDArray[np.bool_]:
    """Return which rows are misdated, shape (n,).

    Args:
        event_time_us: event times in microseconds, shape (n,).
        base_us: the newest event time before each, in microseconds; None when it is not known.
        arrival_us: when each arrived, in microseconds.
    """
    old = event_time_us < arrival_us - LONGEST_DELAY_US
    found: NDArray[np.bool_] = np.zeros(len(event_time_us), np.bool_)
    for factor in _TOO_SMALL:
        # Divided, and not multiplied: the product of a time in the far future would not fit.
        first_us, last_us = (
            -(-(arrival_us - LONGEST_DELAY_US) // factor),
            (arrival_us + MAX_AHEAD_US) // factor,
        )
        found |= old & (event_time_us >= first_us) & (event_time_us <= last_us)
    return found if base_us is None else found | (event_time_us < base_us - LONGEST_DELAY_US)


def separate_misdated(
    report: Report, base_ms: int | None, cells: ReportCells | None = None
) -> tuple[ReportCells, ReportCells] | None:
    """Return a report's counts of plausible rows and of misdated ones; None when there are no misdated ones."""
    base_us = None if base_ms is None else base_ms * SPARK_TICK_US
    newest_us = report.started_us if base_us is None else max(base_us, report.started_us)
    # Nearly every report ends here.
    if report.min_event_time_us is None or report.min_event_time_us >= newest_us - LONGEST_DELAY_US:
        return None
    cells = cells_of(report) if cells is None else cells
    first_us = granule_first_us(cells.granules, report.granule_us, report.closed)
    wrong = misdated(first_us, base_us, report.started_us)
    return (_some(cells, ~wrong), _some(cells, wrong)) if wrong.any() else None


def _some(cells: ReportCells, which: NDArray[np.bool_]) -> ReportCells:
    return replace(
        cells, granules=cells.granules[which], counts=cells.counts[which], parts=cells.parts[which]
    )


def explained(event_time_us: int, arrival_us: int) -> str:
    """Return the date of a misdated row and what explains it: ``dated 1970-01-21: seconds read as milliseconds?``."""
    dated = f"dated {_day(event_time_us)}"
    for factor, mistake in _TOO_SMALL.items():
        if abs(event_time_us * factor - arrival_us) <= LONGEST_DELAY_US:
            return f"{dated}: {mistake}?"
    if event_time_us >= _TOO_LARGE * arrival_us > 0:
        return f"{dated}: microseconds read as milliseconds?"
    if event_time_us > arrival_us:
        return f"{dated}, in the future"
    if abs(event_time_us) <= DAY_US:
        return f"{dated}: is the time missing, or 0?"
    return f"{dated}, longer ago than any delay ({format_duration(LONGEST_DELAY_US)})"


def _day(time_us: int) -> str:
    """Return the day of a time, or its year where that has more than four digits."""
    day = np.datetime64(time_us, "us").astype("datetime64[D]")
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + _EPOCH_YEAR
    return str(day) if 1 <= year <= _LAST_YEAR else f"in the year {year:,}"


MAX_AHEAD_US = HOUR_US
"""How far a batch may be ahead of the store's clock or of the stream's newest event time, in microseconds."""

AGREED_US = HOUR_US
"""Time over which nothing but batches that agree ends their quarantine, in microseconds."""

QUARANTINE_US = 3 * DAY_US
"""How long a batch stays in quarantine before it is deleted, in microseconds."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What event time a batch reached, and when."""

    event_time_us: int
    """Maximum of its rows' event times, its base and its watermark, in microseconds."""
    received_us: int
    """When its report was received, in microseconds."""

    def limit_us(self, now_us: int) -> int:
        """Return the event time that a batch may reach at ``now_us`` to agree with this one."""
        return self.event_time_us + max(now_us - self.received_us, 0) + MAX_AHEAD_US

    def agrees(self, later: Reached) -> bool:
        """Return whether a later batch goes on from this one, as a stream does, and not back or far ahead."""
        lowest_us = self.event_time_us - MAX_AHEAD_US
        return lowest_us <= later.event_time_us <= self.limit_us(later.received_us)


def reached_us(max_event_time_us: int | None, late_base_ms: int | None, watermark_ms: int) -> int | None:
    """Return the event time that a batch reached, in microseconds; None before the first row."""
    known = [] if max_event_time_us is None else [max_event_time_us]
    known += [time_ms * SPARK_TICK_US for time_ms in (late_base_ms, watermark_ms) if time_ms]
    return max(known, default=None)


def limit_us(last: Reached | None, now_us: int) -> int:
    """Return the greatest event time that is plausible at ``now_us``, in microseconds."""
    by_clock_us = now_us + MAX_AHEAD_US
    return by_clock_us if last is None else max(by_clock_us, last.limit_us(now_us))
