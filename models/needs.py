"""Needs: how large the bound would have had to be to admit a row.

A row with key k is late iff ``k <= B - L``, with B the base its watermark was made from. So the smallest bound that
admits it is the smallest allowed L above ``B - k``. Bounds are multiples of a tick (Spark's delay has whole
milliseconds, a per-row engine's whole microseconds). A need is signed: negative for a row that even a watermark ahead
of the base would admit; it, and not the row's lateness, is the sample of which the bound is a quantile (see
``README``).
"""

from __future__ import annotations

from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.operators import Int64s


def needs_us(key_us: Int64s, base_us: Int64s | int, tick_us: int) -> Int64s:
    """Return for each key the smallest multiple of ``tick_us`` that admits it against its base, shape (n,)."""
    return ((base_us - key_us) // tick_us + 1) * tick_us


class BaseTracker:
    """The base that a batch's late filter used, from the batches before it.

    The filter of batch n uses W(n-1), which covers the rows of batches up to n-2 (Spark 4.2, ``WatermarkTracker`` and
    ``PropagateWatermarkSimulator``; measured). Batches may be added more than once, and in any order as long as none
    is more than 1,000 behind the newest.
    """

    _REMEMBERED = 1_000

    def __init__(self) -> None:
        self._maxima_ms: dict[int, int] = {}

    def add(self, batch_id: int, max_event_time_us: int | None) -> None:
        """Add the maximum event time of a batch; None for a batch without rows."""
        if max_event_time_us is not None:
            base_ms = max_event_time_us // SPARK_TICK_US
            self._maxima_ms[batch_id] = max(base_ms, self._maxima_ms.get(batch_id, base_ms))
            if len(self._maxima_ms) > self._REMEMBERED:
                # A driver runs for months: the oldest is merged into the next, where it still counts.
                oldest, following = sorted(self._maxima_ms)[:2]
                self._maxima_ms[following] = max(self._maxima_ms.pop(oldest), self._maxima_ms[following])

    def late_base_ms(self, batch_id: int) -> int | None:
        """Return the base of ``batch_id``'s late filter in milliseconds, None when no earlier batch had rows."""
        return max((base for batch, base in self._maxima_ms.items() if batch <= batch_id - 2), default=None)
