"""The fleet in real time: its rows as they arrive, without end."""

from __future__ import annotations

import numpy as np

from tidemark.spark_jobs.demo.generator import GeneratedRows, generate

_BLOCK_SECONDS = 60
"""Length of the parts in which rows are made: the fleet repeats itself every minute."""


class Fleet:
    """The rows of the fleet from a moment on.

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
            block = generate(_BLOCK_SECONDS, self._rows_per_second, self._seed, self._made_until_us)
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
