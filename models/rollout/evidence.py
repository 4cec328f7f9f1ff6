"""How long a stream has been observed: the evidence that narrowing waits for, unless a person approves it.

What has not come often enough yet is covered by no certificate (``confidence.rarest_covered_us``). A replay covers
hours of event time in minutes, and a stalled stream covers minutes of event time in hours; neither shows the delays of
the stream at its own pace. So the slower of the two clocks counts, and a pause does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tidemark.models.base.confidence import interval_ppm
from tidemark.models.base.defaults import EVIDENCE_SHARE_OF_HORIZON_PPM, PREDICTION_MIN_ROWS
from tidemark.models.base.duration import format_about
from tidemark.models.base.operators import Int64s
from tidemark.models.base.target import PPM
from tidemark.models.specs.slo import Policy

_SLOT_US = 60_000_000
"""Shortest step in which both clocks are compared, in microseconds: from batch to batch the base moves unevenly."""

_SLOT_GAPS = 10
"""The same in typical gaps between batches, for streams with rare batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSpan:
    """How much evidence there is for a narrowing, and how much is required."""

    covered_us: int
    """Event time covered by reports, at most as long as they took to come, in microseconds."""
    needed_us: int
    """Event time required, in microseconds."""
    reached_us: int | None
    """Earliest wall time at which it can be reached, in microseconds; None: the horizon is shorter."""
    why: str = ""
    """Which setting determines it, when it is not the policy's time; else empty."""

    @property
    def enough(self) -> bool:
        """Whether there is as much as is required."""
        return self.covered_us >= self.needed_us


def evidence_span(
    policy: Policy, span_us: int, horizon_ms: int, seen_us: Int64s, base_us: Int64s
) -> EvidenceSpan | None:
    """Return the evidence of a stream; None when the policy requires none.

    Args:
        policy: how much it requires.
        span_us: length of the operator's windows, in microseconds; 0 for operators without.
        horizon_ms: how far back evidence counts, in milliseconds.
        seen_us: when the batches with judged rows were triggered, ascending, shape (batches,).
        base_us: maximum event time of each of them, shape (batches,).
    """
    windows_us = policy.evidence_windows * span_us
    needed_us = max(policy.evidence_ms * 1_000, windows_us)
    if not needed_us:
        return None
    why = f" ({policy.evidence_windows:,} windows)" if windows_us == needed_us else ""
    max_us = horizon_ms * 1_000 * EVIDENCE_SHARE_OF_HORIZON_PPM // PPM
    if needed_us > max_us:
        # Windows are many or few; but what is rare is not covered by less time.
        needed_us = max(max_us, policy.evidence_ms * 1_000)
        why = f" (most of the horizon of {format_about(horizon_ms * 1_000)})" if needed_us == max_us else ""
    found_us = covered_us(seen_us, base_us)
    newest_us = int(seen_us[-1]) if len(seen_us) else 0
    reached_us = newest_us + needed_us - found_us if needed_us <= horizon_ms * 1_000 else None
    return EvidenceSpan(covered_us=found_us, needed_us=needed_us, reached_us=reached_us, why=why)


def covered_us(seen_us: Int64s, base_us: Int64s) -> int:
    """Return how much event time batches cover, each stretch at most for as long as it took, in microseconds."""
    import numpy as np  # noqa: PLC0415 - the command line shows states, and starts fast without it

    if len(seen_us) < 2:
        return 0
    slot_us = max(_SLOT_US, _SLOT_GAPS * int(np.median(np.diff(seen_us))))
    # The last batch of each slot, and the very first.
    slots = (seen_us - seen_us[0]) // slot_us
    last = np.flatnonzero(np.diff(slots, append=slots[-1] + 1))
    ends = np.unique(np.r_[0, last])
    walls = np.diff(seen_us[ends])
    moves = np.diff(np.maximum.accumulate(base_us)[ends])
    # Nothing was observed during a pause, and what followed it was a catch-up.
    watched = walls <= 2 * slot_us
    return int(np.minimum(walls, moves)[watched].sum())


@dataclass(frozen=True, slots=True)
class Judged:
    """What the ledger counted in the batches in which a bound was in effect."""

    rows: int
    late_min: int
    late_max: int

    @property
    def known(self) -> int:
        """How many are known to have been admitted, or late."""
        return self.rows - (self.late_max - self.late_min)


class BatchUnderBound(Protocol):
    """What counts of a batch that ran with a bound."""

    @property
    def query_id(self) -> str:
        """Its query."""

    @property
    def seen_us(self) -> int:
        """When it was triggered, in microseconds."""

    @property
    def watermark_ms(self) -> int:
        """The watermark in force in it, in milliseconds."""

    @property
    def late_watermark_ms(self) -> int | None:
        """The watermark that its rows were judged by, in milliseconds; None when it is not known."""

    @property
    def pairs(self) -> int:
        """(Row, key) pairs that were judged."""

    @property
    def late_min(self) -> int:
        """Pairs that were certainly late."""

    @property
    def late_max(self) -> int:
        """Pairs that may have been late."""


@dataclass(frozen=True, slots=True)
class UnderBound:
    """What the batches that ran with a bound add up to, from the first one on in which it was in effect."""

    restored_ms: dict[str, int] = field(default_factory=dict)
    """By query, the watermark that its first batch under the bound restored, in milliseconds.

    Rows judged by it belong to the bound before; a higher watermark has moved under this bound."""
    since_us: int | None = None
    """When the first batch was triggered whose watermark has moved under it, in microseconds; None before."""
    judged: Judged = Judged(0, 0, 0)
    """The pairs that were judged by such a watermark."""

    def with_batches(self, batches: Iterable[BatchUnderBound], span_us: int) -> UnderBound | None:
        """Return this with further batches; None when one of them changes which of the earlier ones count."""
        batches = list(batches)
        restored_ms = dict(self.restored_ms)
        for batch in batches:
            mark_ms = restored_ms.get(batch.query_id, batch.watermark_ms)
            restored_ms[batch.query_id] = min(mark_ms, batch.watermark_ms)
        if any(restored_ms[query] < mark_ms for query, mark_ms in self.restored_ms.items()):
            return None
        moved = [batch.seen_us for batch in batches if batch.watermark_ms > restored_ms[batch.query_id]]
        since_us = self.since_us if not moved else min(moved)
        if self.since_us is not None and since_us is not None:
            if since_us < self.since_us:
                return None
            since_us = self.since_us
        if since_us is None:
            return UnderBound(restored_ms)
        counted = [
            batch
            for batch in batches
            if batch.late_watermark_ms is not None
            and batch.late_watermark_ms > restored_ms[batch.query_id]
            and batch.seen_us <= since_us + span_us
        ]
        before = self.judged
        judged = Judged(
            before.rows + sum(batch.pairs for batch in counted),
            before.late_min + sum(batch.late_min for batch in counted),
            before.late_max + sum(batch.late_max for batch in counted),
        )
        return UnderBound(restored_ms, since_us, judged)


def rows_per_event(rows: int, events: int) -> float:
    """Return how many of ``rows`` share their fate; 1 without any event."""
    return rows / events if events else 1.0


@dataclass(frozen=True, slots=True)
class PredictionScore:
    """The outcome of a prediction of completeness."""

    completeness_ppm: int
    """Share of the judged pairs that were admitted, in parts per million; the middle of the ledger's interval."""
    error_ppm: int
    """That minus the predicted share, in parts per million; positive when more was admitted."""
    max_ppm: int | None
    """Upper end of the interval of the share for all rows to come, which holds at every look."""


def score(
    predicted_rows: int, predicted_late: int, judged: Judged, confidence_ppm: int, per_event: float
) -> PredictionScore | None:
    """Return the outcome of a prediction; None: too early, or nothing was predicted.

    Args:
        predicted_rows: the pairs that it rests on.
        predicted_late: how many of them would have been late.
        judged: what the ledger counted since.
        confidence_ppm: confidence of the interval, in parts per million.
        per_event: how many pairs share their fate.
    """
    if judged.rows < PREDICTION_MIN_ROWS or not predicted_rows:
        return None
    twice_late = judged.late_min + judged.late_max
    realised_ppm = PPM - twice_late * PPM // (2 * judged.rows)
    predicted_ppm = PPM - predicted_late * PPM // predicted_rows
    _, max_ppm = interval_ppm(judged.late_min, judged.late_max, judged.rows, confidence_ppm, per_event)
    return PredictionScore(realised_ppm, realised_ppm - predicted_ppm, max_ppm)
