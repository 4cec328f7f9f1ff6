"""A backtest as JSON: one record for each trace and policy."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidemark.controller.base.whole_file import whole_file
from tidemark.controller.tools.backtest.trial import PolicyResult, Trial
from tidemark.controller.tools.traces.format import one_line
from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.run import BacktestRun
from tidemark.models.backtest.spark import NO_BOUND_US
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.base.target import PPM
from tidemark.models.evidence.curve import replay_per_row
from tidemark.models.evidence.needs import needs_us
from tidemark.models.live.policy import NO_BASE_US, Setup


def record_of(trial: Trial, outcome: PolicyResult) -> dict[str, Any]:
    """Return the figures of one policy on one trace: integers with their unit in the name, None where unknown."""
    yardstick = trial.yardstick
    spark = yardstick.spark
    return {
        "trace": str(trial.path),
        "policy": outcome.policy,
        **figures_of(trial.setup, outcome),
        "fixed_hindsight_bound_us": _whole(yardstick.fixed.bound_us),
        "fixed_hindsight_latency_us": _whole(yardstick.fixed.score.latency_mean_us),
        "spark_hindsight_bound_us": _whole(None if spark is None else spark.bound_us),
        "spark_hindsight_latency_us": _whole(None if spark is None else spark.score.latency_mean_us),
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
        "engine": setup.engine,
        "scope": setup.scope,
        "mode": setup.mode,
        "decided": score.decided,
        "meets_target": outcome.meets,
        "lag_median_us": _whole(score.median_lag_us),
    }


def write_figures(path: Path, records: list[dict[str, Any]]) -> None:
    """Write the records to ``path`` as JSON, whole or not at all.

    Raises:
        ValueError: when the file cannot be written.
    """
    try:
        with whole_file(path) as unfinished:
            unfinished.write_text(json.dumps(records, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror}") from None


def _whole(duration_us: float | None) -> int | None:
    return None if duration_us is None or not math.isfinite(duration_us) else round(duration_us)


def _ppm(share: float | None) -> int | None:
    """Return a share in parts per million, rounded down; a last bit that a float is off by does not count."""
    if share is None or not math.isfinite(share):
        return None
    return math.floor(share * PPM * PPM + 0.5) // PPM


@dataclass(frozen=True, slots=True)
class PairNeeds:
    """The need of each (row, key) pair against the stream's one base; arrays of shape (counts,)."""

    slot: Int64s
    """Slot in which they arrived."""
    need_us: Int64s
    """Minimum constant bound that admits them, in microseconds."""
    count: Int64s
    """Pairs behind each."""


@dataclass(frozen=True, slots=True)
class NeedsOverTime:
    """Needs by equal spans of the trace's clock; arrays of shape (spans,), spans without rows left out."""

    wall_us: Int64s
    """End of the span."""
    at_target_us: Int64s
    """Maximum need of the share of the rows of the span that the target demands."""
    max_us: Int64s
    """Maximum need of all of them."""


def pair_needs(arrivals: Arrivals, setup: Setup) -> PairNeeds:
    """Return the needs of a trace; pairs that arrived before any base are left out: any bound admits them."""
    if setup.engine == "per-row":
        replay = replay_per_row(arrivals.each.event_time_us, arrivals.each.arrival_time_us, setup.operator)
        arrived_us = arrivals.each.arrival_time_us[replay.step]
        slot = (arrived_us - arrivals.first_us) // setup.trigger_us
        base, key, count, tick_us = (
            replay.late_base_us[replay.step],
            replay.key_us,
            replay.count,
            replay.tick_us,
        )
    else:
        slot, key, count, tick_us = arrivals.slot, arrivals.key_us, arrivals.count, SPARK_TICK_US
        base = _late_bases_us(arrivals)[np.searchsorted(arrivals.occupied, slot)]
    known = base > NO_BASE_US
    return PairNeeds(slot[known], needs_us(key[known], base[known], tick_us), count[known])


def needs_over_time(arrivals: Arrivals, setup: Setup, pairs: PairNeeds, spans: int) -> NeedsOverTime:
    """Return the needs in at most ``spans`` equal spans of whole slots."""
    slots = -(-arrivals.slots // spans)
    order = np.lexsort((pairs.need_us, pairs.slot // slots))
    span, need, count = (pairs.slot // slots)[order], pairs.need_us[order], pairs.count[order]
    found, start = np.unique(span, return_index=True)
    end = np.append(start[1:], len(span))
    total = np.concatenate([[0], np.cumsum(count)])
    ranks = total[start] - (-(total[end] - total[start]) * setup.target_ppm // PPM)
    at_target = need[np.searchsorted(total, ranks, side="left") - 1] if len(need) else need
    return NeedsOverTime(
        arrivals.first_us + np.minimum((found + 1) * slots, arrivals.slots) * setup.trigger_us,
        at_target,
        need[end - 1] if len(need) else need,
    )


def lag_us(arrivals: Arrivals, run: BacktestRun) -> NDArray[np.float64]:
    """Return, for each batch, how far its watermark trails the base that it comes from; NaN before there is a base."""
    base = np.concatenate([[NO_BASE_US], _bases_us(arrivals)])
    before = base[np.searchsorted(arrivals.occupied, run.slot, side="left")]
    known = (before > NO_BASE_US) & (run.watermark_us > NO_BASE_US)
    return np.where(known, before - run.watermark_us, np.nan)


def _bases_us(arrivals: Arrivals) -> Int64s:
    """Return the base after each occupied slot, in whole milliseconds as in Spark."""
    maxima = np.full(len(arrivals.occupied), NO_BASE_US, np.int64)
    np.maximum.at(maxima, arrivals.maxima.occupied, arrivals.maxima.event_time_us)
    bases: Int64s = np.maximum.accumulate(maxima // SPARK_TICK_US * SPARK_TICK_US)
    return bases


def _late_bases_us(arrivals: Arrivals) -> Int64s:
    """Return the base that judges each occupied slot under a constant bound: that of two batches before.

    After a free slot it is that of the slot before: either a no-data batch ran in between, or the base had not moved.
    """
    base = np.concatenate([[NO_BASE_US, NO_BASE_US], _bases_us(arrivals)])
    after_free_slot = np.diff(arrivals.occupied, prepend=arrivals.occupied[0]) > 1
    return np.where(after_free_slot, base[1:-1], base[:-2])


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
