"""The demo's stream: a fleet whose worst moments a guessed bound does not foresee.

Sixteen partitions send rows with exponential delays. One of them is slow for a minute and a half. Every minute
some devices of two others go offline and flush what they stored when they are back: their rows come late, all at once.
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


SLOW_SECONDS = (30, 120)
"""From when and until when the slow partition of the demonstration is slow: it is over before the restart."""

_BLOCK_SECONDS = 60
"""Length of the parts in which rows are made: the fleet repeats itself every minute."""


@dataclass(frozen=True, slots=True)
class GeneratedRows:
    """Rows in order of arrival. Arrays have shape (rows,); times are UTC microseconds."""

    event_time_us: Int64s
    arrival_time_us: Int64s
    partition: np.ndarray[tuple[int], np.dtype[np.str_]]


def generate(
    seconds: int,
    rows_per_second: int,
    seed: int,
    start_us: int = START_US,
    slow_seconds: tuple[int, int] = SLOW_SECONDS,
) -> GeneratedRows:
    """Return ``seconds`` of the fleet's rows from ``start_us``, the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    rows = seconds * rows_per_second
    event_s = np.sort(rng.uniform(0, seconds, rows))
    partition = rng.integers(0, PARTITIONS, rows)
    delay_s = rng.exponential(1.0, rows)
    begin_s, end_s = slow_seconds
    slow = (partition == SLOW_PARTITION) & (event_s >= begin_s) & (event_s < end_s)
    delay_s[slow] += 15.0 + rng.exponential(2.0, int(slow.sum()))
    # From second 20 to 40 of each minute a fifth of the devices of two partitions keep their rows.
    second = event_s % 60
    offline = (
        np.isin(partition, _OFFLINE_PARTITIONS) & (second >= 20) & (second < 40) & (rng.random(rows) < 0.2)
    )
    delay_s[offline] += 40 - second[offline]
    arrival_s = event_s + delay_s
    order = np.argsort(arrival_s, kind="stable")
    return GeneratedRows(
        start_us + (event_s[order] * 1e6).astype(np.int64),
        start_us + (arrival_s[order] * 1e6).astype(np.int64),
        partition[order].astype(np.str_),
    )


class Fleet:
    """The rows of the fleet from a moment on, when no partition is slow any more.

    Args:
        start_us: event time of its first rows, in microseconds.
        rows_per_second: how many it sends.
        seed: other rows for another one.
    """

    def __init__(self, start_us: int, rows_per_second: int, seed: int) -> None:
        self._made_until_us = start_us
        self._rows_per_second = rows_per_second
        self._seed = seed
        self._waiting = generate(0, rows_per_second, seed)

    def arrived(self, now_us: int) -> GeneratedRows:
        """Return the rows that have arrived by ``now_us`` since the last call, in order of arrival."""
        while self._made_until_us < now_us:
            self._seed += 1
            block = generate(_BLOCK_SECONDS, self._rows_per_second, self._seed, self._made_until_us, (0, 0))
            self._waiting = _merged(self._waiting, block)
            self._made_until_us += _BLOCK_SECONDS * 1_000_000
        here = int(np.searchsorted(self._waiting.arrival_time_us, now_us, side="right"))
        arrived = _part(self._waiting, slice(0, here))
        self._waiting = _part(self._waiting, slice(here, None))
        return arrived


def _merged(first: GeneratedRows, second: GeneratedRows) -> GeneratedRows:
    arrival_us = np.concatenate([first.arrival_time_us, second.arrival_time_us])
    order = np.argsort(arrival_us, kind="stable")
    return GeneratedRows(
        np.concatenate([first.event_time_us, second.event_time_us])[order],
        arrival_us[order],
        np.concatenate([first.partition, second.partition])[order],
    )


def _part(rows: GeneratedRows, part: slice) -> GeneratedRows:
    return GeneratedRows(rows.event_time_us[part], rows.arrival_time_us[part], rows.partition[part])
