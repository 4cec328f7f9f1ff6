"""What a run of the demonstration came to: the sink counted against the truth, window by window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds

from tidemark.models.base.operators import Int64s, TimeWindow
from tidemark.spark_jobs.demo.plan import Plan


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What Spark reported of one batch."""

    batch_id: int
    """Spark's batch id."""
    rows_so_far: int
    """Rows of the trace that were taken up to this batch."""
    state_rows: int
    """Rows in the state store after the batch."""


@dataclass(frozen=True, slots=True)
class SinkWindow:
    """One window as it stands in the sink."""

    batch_id: int
    """The batch that emitted it."""
    end_us: int
    """The window's end in microseconds."""
    rows: int
    """Rows counted in it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Completeness and cost of one run."""

    bound_ms: int | None
    """The bound of the run, in milliseconds; None for one that moved."""
    windows: int
    """Windows closed in the run."""
    rows: int
    """Rows of the trace that belong to those windows."""
    lost: int
    """Rows of those that the sink does not have."""
    latency_us: float | None
    """Mean over the windows of the wall time of emission, by the trace's clock, minus the window's end."""
    state_rows: float | None
    """Mean over the batches of the rows in the state store; None of a replay."""

    @property
    def completeness(self) -> float | None:
        """Share of the rows that the sink has; None when no window closed."""
        return (self.rows - self.lost) / self.rows if self.rows else None


def read_sink(folder: Path) -> list[SinkWindow]:
    """Return every window in the sink."""
    if not any(folder.rglob("*.parquet")):
        return []
    table = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    return [SinkWindow(row["batch"], row["end_us"], row["rows"]) for row in table.to_pylist()]


def outcome_of(
    *,
    plan: Plan,
    operator: TimeWindow,
    bound_ms: int,
    watermark_us: Int64s,
    windows: list[SinkWindow],
    facts: Mapping[int, BatchFacts],
) -> Outcome:
    """Return the outcome of one run.

    A window that closed counts with all rows the trace has for it, whenever they arrive; also a window of which
    every row was lost, so that nothing reached the sink.

    Args:
        plan: the trace.
        operator: the windows.
        bound_ms: the bound of the run.
        watermark_us: the watermark before the run and after it, shape (2,).
        windows: windows that the run emitted.
        facts: what Spark reported of each batch of the run.
    """
    _, ends = operator.keys(plan.arrivals.event_time_us)
    before, after = watermark_us.tolist()
    closed, truth = np.unique(ends[(ends > before) & (ends <= after)], return_counts=True)
    have = {window.end_us: window for window in windows}
    counted = sum(window.rows for window in windows)
    latency = [
        max(plan.wall_us(facts[window.batch_id].rows_so_far) - end, 0)
        for end, window in have.items()
        if window.batch_id in facts
    ]
    return Outcome(
        bound_ms=bound_ms,
        windows=len(closed),
        rows=int(truth.sum()),
        lost=int(truth.sum()) - counted,
        latency_us=float(np.mean(latency)) if latency else None,
        state_rows=float(np.mean([fact.state_rows for fact in facts.values()])) if facts else None,
    )
