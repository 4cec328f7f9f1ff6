"""Predictions scored: what was said of a bound's completeness against what the ledger counted under it."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.defaults import PREDICTION_MIN_ROWS
from tidemark.models.target import PPM

__all__ = ["POINT_PPM", "Judged", "PredictionScore", "score"]

POINT_PPM = 10_000
"""One percentage point in parts per million."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the ledger says of the batches that a bound was in effect in."""

    rows: int
    """(Row, key) pairs that were judged."""
    late_min: int
    """Pairs that were late for sure."""
    late_max: int
    """Pairs that may have been late."""


@dataclass(frozen=True, slots=True)
class PredictionScore:
    """How a prediction of completeness came out."""

    completeness_ppm: int
    """Share of the judged pairs that were admitted, in parts per million; the middle of the ledger's interval."""
    error_ppm: int
    """That minus the share predicted, in parts per million; 10,000 are one point. Positive: more was kept."""


def score(predicted_rows: int, predicted_late: int, judged: Judged) -> PredictionScore | None:
    """Return how a prediction came out; None: not yet, or there is nothing to compare.

    Args:
        predicted_rows: pairs that the prediction rests on.
        predicted_late: how many of them would have been late under the bound.
        judged: what became of the pairs that met the bound in effect.
    """
    if judged.rows < PREDICTION_MIN_ROWS or not predicted_rows:
        return None
    twice_late = judged.late_min + judged.late_max
    realised_ppm = PPM - twice_late * PPM // (2 * judged.rows)
    predicted_ppm = PPM - predicted_late * PPM // predicted_rows
    return PredictionScore(realised_ppm, realised_ppm - predicted_ppm)
