"""Watermarks of sub-streams and their merge: each takes its maximum, the merge takes the minimum of those.

A sub-stream's watermark is the greatest event time it has shown, less its bound, and never goes back. The merged
watermark is the minimum over the sub-streams and never goes back either (Flink, ``WatermarkOutputMultiplexer``;
Hazelcast Jet, ``WatermarkCoalescer``). It follows that a row which is not late in its own sub-stream is not late in
the merge. Spark has one global maximum instead, which is what Live mode mends.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["MergedWatermark"]


class MergedWatermark:
    """The watermark of several sub-streams, the minimum of their maxima.

    Args:
        bounds_us: the lateness bound of each sub-stream by name, in microseconds. All must be named from the start:
            a sub-stream that has shown nothing holds the merge back.
        start_us: the watermark before any row, in microseconds; None for none.
    """

    def __init__(self, bounds_us: Mapping[str, int], start_us: int | None = None) -> None:
        if not bounds_us:
            raise ValueError("a merged watermark needs at least one sub-stream")
        self._bounds_us = dict(bounds_us)
        self._own_us: dict[str, int | None] = dict.fromkeys(bounds_us, start_us)
        self._merged_us = start_us

    def advance(self, name: str, event_time_us: int) -> int | None:
        """Take a row of sub-stream ``name`` and return the merged watermark after it, None while there is none.

        Raises:
            KeyError: when ``name`` was not named at the start.
        """
        before = self._own_us[name]
        own = event_time_us - self._bounds_us[name]
        self._own_us[name] = own if before is None else max(before, own)
        own_watermarks = [mark for mark in self._own_us.values() if mark is not None]
        if len(own_watermarks) == len(self._own_us):
            lowest = min(own_watermarks)
            self._merged_us = lowest if self._merged_us is None else max(self._merged_us, lowest)
        return self._merged_us

    @property
    def merged_us(self) -> int | None:
        """The merged watermark in microseconds, None while a sub-stream has none."""
        return self._merged_us

    def own_us(self, name: str) -> int | None:
        """Return the watermark of one sub-stream in microseconds, None while it has none."""
        return self._own_us[name]
