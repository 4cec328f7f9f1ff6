"""A backtest as JSON: one record for each trace and policy."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidemark.controller.backtest.trial import PolicyResult, Trial
from tidemark.controller.runtime.whole_file import whole_file
from tidemark.models.base.target import PPM


def record_of(trial: Trial, outcome: PolicyResult) -> dict[str, Any]:
    """Return the figures of one policy on one trace: integers with their unit in the name, None where unknown."""
    setup, score, yardstick = trial.setup, outcome.score, trial.yardstick
    return {
        "trace": str(trial.path),
        "policy": outcome.policy,
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
        "fixed_hindsight_bound_us": _whole(yardstick.fixed_bound_us),
        "fixed_hindsight_latency_us": _whole(yardstick.fixed_score.latency_mean_us),
        "clairvoyant_latency_us": _whole(yardstick.clairvoyant_us),
        "objective": setup.objective,
        "engine": setup.engine,
        "scope": setup.scope,
        "mode": setup.mode,
        "meets_target": outcome.meets,
        "lag_median_us": _whole(score.median_lag_us),
    }


def as_json(records: Iterable[dict[str, Any]]) -> str:
    """Return the records as a JSON list, one field per line."""
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


def _whole(duration_us: float | None) -> int | None:
    return None if duration_us is None or not math.isfinite(duration_us) else round(duration_us)


def _ppm(share: float | None) -> int | None:
    """Return a share in parts per million, rounded down; a last bit that a float is off by does not count."""
    if share is None or not math.isfinite(share):
        return None
    return math.floor(share * PPM * PPM + 0.5) // PPM
