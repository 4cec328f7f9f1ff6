"""A backtest as JSON: one record for each trace and policy."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidemark.controller.backtest.trial import Outcome, Trial
from tidemark.controller.runtime.whole_file import whole_file
from tidemark.models.target import PPM

__all__ = ["as_json", "record_of", "write_json"]


def record_of(trial: Trial, outcome: Outcome) -> dict[str, Any]:
    """Return what one policy did on one trace; times in seconds, shares between 0 and 1, None where unknown."""
    setup, score, yardstick = trial.setup, outcome.score, trial.yardstick
    return {
        "trace": str(trial.path),
        "policy": outcome.policy,
        "target": setup.target_ppm / PPM,
        "rows": score.pairs,
        "late": score.late,
        "completeness": _share(score.completeness),
        "windows": score.windows,
        "windows_meeting_target": _share(score.windows_meeting_target),
        "minutes_meeting_target": _share(score.minutes_meeting_target),
        "worst_minute": _share(score.worst_minute),
        "latency_mean_s": _seconds(score.latency_mean_us),
        "latency_p95_s": _seconds(score.latency_p95_us),
        "bound_mean_s": _seconds(score.bound_mean_us),
        "bound_changes": score.bound_changes,
        "fixed_hindsight_bound_s": _seconds(yardstick.fixed_bound_us),
        "fixed_hindsight_latency_s": _seconds(yardstick.fixed_score.latency_mean_us),
        "clairvoyant_latency_s": _seconds(yardstick.clairvoyant_us),
        "objective": setup.objective,
        "engine": setup.engine,
        "scope": setup.scope,
        "mode": setup.mode,
        "meets_target": outcome.meets,
        "lag_median_s": _seconds(score.median_lag_us),
    }


def as_json(records: Iterable[dict[str, Any]]) -> str:
    """Return the records as a JSON list, a field a line."""
    return json.dumps(list(records), indent=2, allow_nan=False)


def write_json(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write the records to ``path``, whole or not at all.

    Raises:
        ValueError: when the file cannot be written.
    """
    try:
        with whole_file(path) as unfinished:
            unfinished.write_text(as_json(records) + "\n", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror}") from None


def _seconds(duration_us: float | None) -> float | None:
    return None if duration_us is None or not math.isfinite(duration_us) else float(duration_us) / 1e6


def _share(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
