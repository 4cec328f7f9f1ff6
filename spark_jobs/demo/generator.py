"""The demo's stream: a fleet whose worst moments a guessed bound does not foresee.

Sixteen partitions send rows with exponential delays. One of them is slow, always. Every minute some devices of two
others go offline and flush what they stored when they are back: their rows come late, all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidemark.models.base.operators import Int64s

PARTITIONS = 16
SLOW_PARTITION = 7
_OFFLINE_PARTITIONS = (3, 11)
START_US = 1_767_225_600_000_000
"""Where event times begin unless a caller says otherwise: 2026-01-01T00:00:00Z."""


@dataclass(frozen=True, slots=True)
class GeneratedRows:
    """Rows in order of arrival. Arrays have shape (rows,); times are UTC microseconds."""

    event_time_us: Int64s
    arrival_time_us: Int64s
    partition: np.ndarray[tuple[int], np.dtype[np.str_]]


def generate(seconds: int, rows_per_second: int, seed: int, start_us: int = START_US) -> GeneratedRows:
    """Return ``seconds`` of the fleet's rows from ``start_us``, the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    rows = seconds * rows_per_second
    event_s = np.sort(rng.uniform(0, seconds, rows))
    partition = rng.integers(0, PARTITIONS, rows)
    delay_s = rng.exponential(1.0, rows)
    delay_s[partition == SLOW_PARTITION] += 8.0 + rng.exponential(
        2.0, int((partition == SLOW_PARTITION).sum())
    )
    # From second 20 to 40 of each minute two fifths of the devices of two partitions keep their rows.
    second = event_s % 60
    offline = (
        np.isin(partition, _OFFLINE_PARTITIONS) & (second >= 20) & (second < 40) & (rng.random(rows) < 0.4)
    )
    delay_s[offline] += 40 - second[offline]
    arrival_s = event_s + delay_s
    order = np.argsort(arrival_s, kind="stable")
    return GeneratedRows(
        start_us + (event_s[order] * 1e6).astype(np.int64),
        start_us + (arrival_s[order] * 1e6).astype(np.int64),
        partition[order].astype(np.str_),
    )
