"""Misdated rows: event times that no delay explains, such as those of 1970, or of tomorrow, among those of today.

A producer that writes seconds where the others write milliseconds dates its rows January 1970. Spark drops them as
late, and so the ledger counts them: they are lost. But they say nothing about delays. The bound that admitted them
would be 20,000 days, so they are no evidence for it, nor against the bound in use. A row is misdated if

* it is older than ``LONGEST_DELAY_US`` behind the base, which is the newest event time that its watermark knew; or
* it lies as far behind its arrival, and times 1,000 or 1,000,000 it lies near it. This holds without a base, and where
  every row is a factor off. An age behind the arrival is not enough: a replay of old data is no fault; or
* its clock is wrong for sure (``Clocks``). Such a row does not raise the base that needs are counted against, either:
  Spark's own watermark follows it, and what that drops, which the bound would have admitted, no bound is judged by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.duration import format_duration
from tidemark.models.base.granules import SPARK_TICK_US, granule_first_us, granule_last_us
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
    wrong: NDArray[np.bool_] = np.zeros(len(event_time_us), np.bool_)
    for factor in _TOO_SMALL:
        # Divided, and not multiplied: the product of a time in the far future would not fit.
        first_us, last_us = (
            -(-(arrival_us - LONGEST_DELAY_US) // factor),
            (arrival_us + MAX_AHEAD_US) // factor,
        )
        wrong |= old & (event_time_us >= first_us) & (event_time_us <= last_us)
    return wrong if base_us is None else wrong | (event_time_us < base_us - LONGEST_DELAY_US)


def separate_misdated(
    report: Report, base_ms: int | None, cells: ReportCells | None = None, clocks: Clocks | None = None
) -> tuple[ReportCells, ReportCells] | None:
    """Return a report's counts of plausible rows and of misdated ones; None when there are no misdated ones.

    Args:
        base_ms: the base of its late filter, in milliseconds; None when it is not known.
        cells: its counts, if the caller has them.
        clocks: its clocks; None when they are not known, as in the driver.
    """
    base_us = None if base_ms is None else base_ms * SPARK_TICK_US
    newest_us = report.started_us if base_us is None else max(base_us, report.started_us)
    if report.min_event_time_us is None or report.max_event_time_us is None:
        return None
    old = report.min_event_time_us < newest_us - LONGEST_DELAY_US
    off = clocks is not None and (report.max_event_time_us > clocks.latest_us or clocks.behind)
    # Nearly every report ends here.
    if not old and not off:
        return None
    cells = cells_of(report) if cells is None else cells
    first_us = granule_first_us(cells.granules, report.granule_us, report.closed)
    wrong = misdated(first_us, base_us, report.started_us)
    if clocks is not None and off:
        wrong |= clocks.wrong(report, cells)
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
"""How far apart two clocks may be that count as the same one when stored times are set back, in microseconds."""

AGREED_US = HOUR_US
"""How long clocks have to agree before stored times are set back, in microseconds."""

CLOCKS_AGREE_US = 1_000_000
"""How far ahead of the controller's a clock may be and still be right, in microseconds: NTP keeps them nearer."""

_LONGEST_WAY_US = 30_000_000
"""How long a report may be on its way, in microseconds: a driver's clock that is less far behind looks the same."""

_OF_ONE_CLOCK = 10
"""With one row in so many ahead, all rows of a partition are of a clock that is ahead: some were delayed by more."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """What the clocks of a batch say about the times of its rows: an event cannot happen after it was read.

    A row that is ahead of the controller's clock is of a wrong clock, whatever the size. One that is behind may be late
    as well: only where the driver's clock is behind, too, and the rows agree with that, are both wrong.
    """

    latest_us: int
    """The latest event time that a clock which is right can have given a row, by the controller's clock."""
    driver_ahead_us: int | None
    """How far the driver's clock is ahead of the controller's; 0 while they agree, None when it is not known."""

    @classmethod
    def of(cls, report: Report, received_us: int, lead_us: int | None) -> tuple[Clocks, int | None]:
        """Return the clocks of a batch whose report was received at ``received_us``, and the query's lead after it.

        Args:
            lead_us: how far all batches of the query so far were ahead of the clock; None before the first row. A
                stream may be dated ahead on purpose, from its first batch on; one that jumps ahead is of wrong clocks.
        """
        ahead_us = None if report.sent_us is None else report.sent_us - received_us
        read_us = received_us
        if ahead_us is not None:
            read_us = min(report.started_us + report.duration_ms * 1_000 - ahead_us, received_us)
            ahead_us = 0 if -_LONGEST_WAY_US <= ahead_us <= CLOCKS_AGREE_US else ahead_us
        clocks = cls(read_us + CLOCKS_AGREE_US, ahead_us)
        if lead_us != 0 and report.max_event_time_us is not None:
            now_us = max(report.max_event_time_us - read_us, 0) if clocks._most_are_ahead(report) else 0
            lead_us = now_us if lead_us is None else min(lead_us, now_us)
        return (cls(clocks.latest_us + lead_us + MAX_AHEAD_US, ahead_us) if lead_us else clocks), lead_us

    def newest_us(self, report: Report, wrong: ReportCells | None) -> int | None:
        """Return the maximum event time of a batch without ``wrong``, its rows of wrong clocks; None without any."""
        if report.max_event_time_us is None or wrong is None:
            return None if report.max_event_time_us is None else min(report.max_event_time_us, self.latest_us)
        cells = cells_of(report)
        right = ~self.wrong(report, cells)
        if not right.any():
            return None
        last_us = int(granule_last_us(cells.granules[right], report.granule_us, report.closed).max())
        return min(last_us, report.max_event_time_us, self.latest_us)

    def wrong(self, report: Report, cells: ReportCells) -> NDArray[np.bool_]:
        """Return which counts of a report are of wrong clocks, shape (n,)."""
        first_us = granule_first_us(cells.granules, report.granule_us, report.closed)
        ahead = first_us > self.latest_us
        rows, early = (
            np.bincount(cells.parts, counts, len(cells.partitions))
            for counts in (cells.counts, cells.counts * ahead)
        )
        whole = (early > 0) & (early * _OF_ONE_CLOCK >= rows)
        if self.behind:
            newest_us = np.full(len(cells.partitions), -(2**62))
            np.maximum.at(newest_us, cells.parts, first_us)
            off_us = self.driver_ahead_us or 0
            whole |= (newest_us <= self.latest_us + off_us) & (newest_us >= self.latest_us + off_us * 3 // 2)
        wrong: NDArray[np.bool_] = ahead | whole[cells.parts]
        return wrong

    @property
    def read_us(self) -> int:
        """When the rows were read at the latest, by the controller's clock, for a stream that is not dated ahead."""
        return self.latest_us - CLOCKS_AGREE_US

    @property
    def behind(self) -> bool:
        """Whether the driver's clock is behind."""
        return self.driver_ahead_us is not None and self.driver_ahead_us < 0

    def _most_are_ahead(self, report: Report) -> bool:
        if (report.max_event_time_us or 0) <= self.latest_us:
            return False
        cells = cells_of(report)
        ahead = granule_first_us(cells.granules, report.granule_us, report.closed) > self.latest_us
        return bool(2 * cells.counts[ahead].sum() >= cells.counts.sum())
