"""How far the windows of a batch have come: which are put out, and which are final. Pure.

The plan's delay T is fixed: Spark's watermark trails the newest event time by it, and a window is final when the
watermark has reached its end. The bound L is no part of the plan. ``early`` trails the same event time by L:

    early(n) = max(early(n-1), base(n) - L(n), W(n))

So it is what the watermark would be under the bound L, batch by batch, and a row is too late for the first version of
its window if and only if ``key <= early(n-1)``. While T stays what it is, the base is ``W(n) + T``. Another T at a
restart must not move it, so the base is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.spark_jobs.core.bound import ChosenBound


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The mark of one batch; times in milliseconds."""

    watermark_ms: int
    """W(n), Spark's watermark in force in the batch: windows that end here or before are final."""
    early_ms: int
    """Windows that end here or before have come out."""
    base_ms: int
    """The newest event time that the watermark was made of; 0 before there is one."""
    delay_ms: int
    """The plan's delay, T."""
    bound: ChosenBound


def next_mark(before: Mark | None, watermark_ms: int, bound: ChosenBound, delay_ms: int) -> Mark:
    """Return the mark of a batch.

    Args:
        before: that of the batch before; None for the first one of a checkpoint.
        watermark_ms: Spark's watermark in force in the batch, in milliseconds.
        bound: the bound. One above the delay counts as the delay: what is final comes out.
        delay_ms: the plan's delay, in milliseconds.
    """
    base_ms = early_ms = 0
    if before is not None:
        # The plan of the batch before made this watermark, even where a restart has changed the delay since.
        moved = watermark_ms > before.watermark_ms
        base_ms = watermark_ms + before.delay_ms if moved else before.base_ms
        early_ms = before.early_ms
    early_ms = max(early_ms, base_ms - bound.bound_ms, watermark_ms)
    return Mark(watermark_ms=watermark_ms, early_ms=early_ms, base_ms=base_ms, delay_ms=delay_ms, bound=bound)
