"""A backtest for programs: one record for each trace and policy, and a timeline of its batches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.controller.base.whole_file import whole_file
from tidemark.controller.lab.backtest.trial import PolicyResult, Trial
from tidemark.controller.lab.traces.format import one_line
from tidemark.models.backtest.run import BacktestRun
from tidemark.models.backtest.spark import NO_BOUND_US
from tidemark.models.base.target import PPM
from tidemark.models.live.policy import NO_BASE_US, Setup


def record_of(trial: Trial, outcome: PolicyResult) -> dict[str, Any]:
    """Return the figures of one policy on one trace: integers with their unit in the name, None where unknown."""
    yardstick = trial.yardstick
    return {
        "trace": str(trial.path),
        "policy": outcome.policy,
        **figures_of(trial.setup, outcome),
        "fixed_hindsight_bound_us": _whole(yardstick.fixed.bound_us),
        "fixed_hindsight_latency_us": _whole(yardstick.fixed.score.latency_mean_us),
        "clairvoyant_latency_us": _whole(yardstick.clairvoyant_us),
    }


def figures_of(setup: Setup, outcome: PolicyResult) -> dict[str, Any]:
    """Return what a replay was asked and what came of it, without the yardsticks."""
    score = outcome.score
    return {
        "target_ppm": setup.target_ppm,
        "rows": score.pairs,
        "late": score.late,
        "completeness_ppm": (score.pairs - score.late) * PPM // score.pairs,
        "windows": score.windows,
        "windows_meeting_target_ppm": _ppm(score.windows_meeting_target),
        "minutes_meeting_target_ppm": _ppm(score.minutes_meeting_target),
        "worst_minute_ppm": _ppm(score.worst_minute),
        "latency_mean_us": _whole(score.latency_mean_us),
        "latency_p95_us": _whole(score.latency_p95_us),
        "bound_mean_us": _whole(score.bound_mean_us),
        "bound_changes": score.bound_changes,
        "objective": setup.objective,
        "mode": setup.mode,
        "decided": score.decided,
        "meets_target": outcome.meets,
        "lag_median_us": _whole(score.median_lag_us),
    }


def _whole(duration_us: float | None) -> int | None:
    return None if duration_us is None or not math.isfinite(duration_us) else round(duration_us)


def _ppm(share: float | None) -> int | None:
    """Return a share in parts per million, rounded down; a last bit that a float is off by does not count."""
    if share is None or not math.isfinite(share):
        return None
    return math.floor(share * PPM * PPM + 0.5) // PPM


COLUMNS = pa.schema(
    [
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("wall_time_us", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bound_us", pa.int64()),
        pa.field("watermark_us", pa.int64()),
    ]
)
"""Columns of a timeline. It has a row for each batch, no-data and control batches included."""


def write_timeline(path: Path, run: BacktestRun) -> None:
    """Write the batches of ``run`` to ``path``, whole or not at all.

    Raises:
        ValueError: when the file cannot be written.
    """
    table = pa.table(
        [
            np.arange(len(run.wall_us), dtype=np.int64),
            run.wall_us,
            run.rows,
            pa.array(run.bound_us, mask=run.bound_us == NO_BOUND_US),
            pa.array(run.watermark_us, mask=run.watermark_us <= NO_BASE_US),
        ],
        schema=COLUMNS,
    )
    try:
        with whole_file(path) as unfinished:
            pq.write_table(table, unfinished, compression="zstd")
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: cannot be written: {one_line(error)}") from None
