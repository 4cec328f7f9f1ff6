"""Inputs of recommendations with needs and latencies that are easy to follow by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from tidemark.models.evidence.completeness import EvidenceCounts
from tidemark.models.evidence.curve import Curve, Emissions, ExactNeeds
from tidemark.models.evidence.progress import Progress
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.promise import Expected
from tidemark.models.recommend.steps import DecisionStep, Recommendation
from tidemark.models.specs.slo import Policy, Slo

MS = 1_000
GOOD = Slo(target_ppm=990_000)


STEADY = Progress(
    batch_gap_us=1_000 * MS,
    silent_us=500 * MS,
    pace_ppm=1_000_000,
    recent_pace_ppm=1_010_000,
    lag_us=600 * MS,
    usual_lag_us=500 * MS,
    silent_partitions=0,
)
"""A stream that keeps up, a batch a second."""

IN_ONE_STEP = Policy(max_narrowing_ppm=None)


def inputs(
    needs_ms: Iterable[float],
    *,
    slo: Slo = GOOD,
    policy: Policy | None = None,
    in_use_bound_ms: int | None = None,
    unknown_rows: int = 0,
    missing_batches: int = 0,
    windows: bool = True,
    progress: Progress = STEADY,
    recent_bounds_ms: tuple[int, ...] = (),
) -> Inputs:
    """Return inputs whose wall latency under a bound of b is b + 1 s, so that caps are easy to place."""
    need = np.array([round(value * MS) for value in needs_ms], np.int64)
    steps = np.arange(0, 200_000, dtype=np.int64) * MS
    emissions = Emissions(np.array([0], np.int64), steps, steps + 1_000 * MS) if windows else None
    evidence = EvidenceCounts(
        rows=len(need),
        unknown_rows=unknown_rows,
        missing_batches=missing_batches,
        batches=1,
        partitions=1,
        from_us=0,
        to_us=0,
    )
    return Inputs(
        curve=Curve(ExactNeeds(need, np.ones_like(need)), emissions),
        slo=slo,
        policy=policy or IN_ONE_STEP,
        evidence=evidence,
        in_use_bound_ms=in_use_bound_ms,
        progress=progress,
        recent_bounds_ms=recent_bounds_ms,
    )


THOUSAND = range(1, 1_001)
"""Needs of 1 to 1,000 ms: the certified rank of 99 % at 95 % is 998, so the quantile step says 998 ms."""


def step(recommendation: Recommendation, name: str) -> DecisionStep:
    (found,) = [step for step in recommendation.steps if step.kind.label == name]
    return found


def capped(on_conflict: Any, cap_ms: int = 1_500) -> Slo:
    return Slo(target_ppm=990_000, latency_cap_ms=cap_ms, on_conflict=on_conflict)


def expected(bound_ms: int, **known: int | None) -> Expected:
    """Return what is expected of a bound that is in use already; all but what is ``known`` is not."""
    nothing: dict[str, Any] = {field.name: None for field in fields(Expected)}
    counts = {"rows": 0, "late": 0, "events": 0, "text": ""}
    return Expected(**nothing | counts | {"bound_ms": bound_ms, "from_bound_ms": bound_ms} | known)
