"""Makes a trace from the reports of a stream: what its job's tap counted, batch by batch.

A report counts rows by granule, so event times are known to the granule; windows are exact, because granules divide
them. The maximum event time of a batch is exact. A row arrives one trigger before the batch that read it, so that a
replay at that trigger runs the same batches at the same times.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.controller.lab.traces.format import Trace
from tidemark.models.base.granules import granule_first_us
from tidemark.models.base.operators import Int64s, Operator
from tidemark.models.evidence.key_counts import cells_of
from tidemark.models.protocol.messages import Report

MAX_ROWS = 200_000_000
"""Maximum number of rows of a trace that is made here; they take some gigabytes while it is written."""

_DIGITS = 3
_NEAR = 0.01


@dataclass(frozen=True, slots=True)
class StreamTrace:
    """The trace of a stream, and what a replay of it needs to know."""

    trace: Trace
    """The rows."""
    operator: Operator
    """The operator of its newest report; reports of another one are left out."""
    trigger_us: int
    """Usual time between two batches, in microseconds."""
    granule_us: int
    """Width of the widest granule, to which event times are known, in microseconds."""
    bound_ms: int
    """The bound of the newest report, in milliseconds."""
    batches: int
    """Batches in the trace."""
    other_batches: int
    """Batches that are left out, because they are of another operator."""
    uncounted_rows: int
    """Rows that are left out, because they were not counted by event time."""


def trace_of_reports(reports: Sequence[Report]) -> StreamTrace:
    """Return the trace of a stream.

    Args:
        reports: its reports, at least one, the oldest batch first.

    Raises:
        ValueError: when no row was counted, or there are too many.
    """
    newest = reports[-1]
    used = [report for report in reports if report.operator == newest.operator]
    rows = sum(report.counted_rows for report in used)
    if not rows:
        raise ValueError("no row of these reports was counted by event time")
    if rows > MAX_ROWS:
        raise ValueError(
            f"there are {rows:,} rows, and a trace may have {MAX_ROWS:,}: give a shorter --since"
        )
    trigger_us = _trigger_us(used)
    names: dict[str, int] = {}
    events, partitions, sizes = [], [], []
    for report in used:
        number = np.array([names.setdefault(name, len(names)) for name in report.counts.partitions], np.int32)
        event_us, partition = _rows_of(report, number)
        events.append(event_us)
        partitions.append(partition)
        sizes.append(len(event_us))
    started_us = np.array([report.started_us for report in used], np.int64)
    arrival_us = np.maximum.accumulate(started_us // trigger_us * trigger_us - trigger_us)
    trace = Trace(
        np.concatenate(events), np.repeat(arrival_us, sizes), np.concatenate(partitions), tuple(names)
    )
    return StreamTrace(
        trace=trace,
        operator=newest.operator,
        trigger_us=trigger_us,
        granule_us=max(report.granule_us for report in used),
        bound_ms=newest.bound_ms,
        batches=len(used),
        other_batches=len(reports) - len(used),
        uncounted_rows=sum(report.uncounted_rows for report in used),
    )


def _rows_of(report: Report, number: NDArray[np.int32]) -> tuple[Int64s, NDArray[np.int32]]:
    """Return event time and partition of each row, shape (rows,) each; ``number`` gives the partitions' numbers."""
    cells = cells_of(report)
    if not cells.partitions:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    first_us = granule_first_us(cells.granules, report.granule_us, report.closed)
    event_us = np.repeat(first_us, cells.counts)
    latest_us = report.max_event_time_us
    at = int(event_us.argmax())
    if latest_us is not None and event_us[at] <= latest_us < event_us[at] + report.granule_us:
        event_us[at] = latest_us
    return event_us, np.repeat(number[cells.parts], cells.counts)


def _trigger_us(reports: Sequence[Report]) -> int:
    """Return the median time between two batches of a run, rounded: triggers are round, and starts are not."""
    gaps = [
        later.started_us - earlier.started_us
        for earlier, later in itertools.pairwise(reports)
        if later.run_id == earlier.run_id and later.started_us > earlier.started_us
    ]
    if not gaps:
        return 1_000_000
    return _round(statistics.median(gaps))


def _round(gap_us: float) -> int:
    """Return the roundest number of at most three digits that is within 1 % of a gap, and at least a millisecond."""
    units: Iterable[int] = (10 ** max(math.floor(math.log10(gap_us)) - place, 3) for place in range(_DIGITS))
    rounded = [max(round(gap_us / unit), 1) * unit for unit in units]
    return next((gap for gap in rounded if abs(gap - gap_us) <= _NEAR * gap_us), rounded[-1])
