"""Predictions scored: the predicted completeness of a bound against what the ledger counted under it."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.defaults import PREDICTION_MIN_ROWS
from tidemark.models.target import PPM


@dataclass(frozen=True, slots=True)
class Judged:
    """What the ledger counted in the batches in which a bound was in effect."""

    rows: int
    """(Row, key) pairs that were judged."""
    late_min: int
    """Pairs that were certainly late."""
    late_max: int
    """Pairs that may have been late."""


@dataclass(frozen=True, slots=True)
class PredictionScore:
    """The outcome of a prediction of completeness."""

    completeness_ppm: int
    """Share of the judged pairs that were admitted, in parts per million; the middle of the ledger's interval."""
    error_ppm: int
    """That minus the predicted share, in parts per million; positive when more was admitted."""


def score(predicted_rows: int, predicted_late: int, judged: Judged) -> PredictionScore | None:
    """Return the outcome of a prediction; None: too early, or nothing was predicted.

    Args:
        predicted_rows: pairs that the prediction rests on.
        predicted_late: how many of them would have been late under the bound.
        judged: the fate of the pairs that arrived while the bound was in effect.
    """
    if judged.rows < PREDICTION_MIN_ROWS or not predicted_rows:
        return None
    twice_late = judged.late_min + judged.late_max
    realised_ppm = PPM - twice_late * PPM // (2 * judged.rows)
    predicted_ppm = PPM - predicted_late * PPM // predicted_rows
    return PredictionScore(realised_ppm, realised_ppm - predicted_ppm)
