"""How long a stream has been observed: the evidence that a first narrowing waits for.

A replay covers hours of event time in minutes, and a stalled stream covers minutes of event time in hours; neither
shows the delays of the stream at its own pace. So the slower of the two clocks counts, and a pause does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidemark.models.defaults import EVIDENCE_SHARE_OF_HORIZON_PPM
from tidemark.models.duration import format_about
from tidemark.models.operators import Int64s
from tidemark.models.slo import Policy
from tidemark.models.target import PPM

_SLOT_US = 60_000_000
"""Shortest step in which both clocks are compared, in microseconds: from batch to batch the base moves unevenly."""

_SLOT_GAPS = 10
"""The same in typical gaps between batches, for streams with rare batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSpan:
    """How much evidence there is for a first narrowing, and how much is required."""

    covered_us: int
    """Event time covered by reports, at most as long as they took to come, in microseconds."""
    needed_us: int
    """Event time required, in microseconds."""
    reached_us: int
    """Earliest wall time at which it can be reached, in microseconds."""
    why: str = ""
    """Which setting determines it, when it is not the policy's time; else empty."""


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
        needed_us, why = max_us, f" (most of the horizon of {format_about(horizon_ms * 1_000)})"
    found_us = covered_us(seen_us, base_us)
    newest_us = int(seen_us[-1]) if len(seen_us) else 0
    return EvidenceSpan(
        covered_us=found_us, needed_us=needed_us, reached_us=newest_us + needed_us - found_us, why=why
    )


def covered_us(seen_us: Int64s, base_us: Int64s) -> int:
    """Return how much event time batches cover, each stretch at most for as long as it took, in microseconds.

    Args:
        seen_us: when they were triggered, ascending, shape (batches,).
        base_us: maximum event time of each, shape (batches,).
    """
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
