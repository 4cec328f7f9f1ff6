"""How many rows a stream-stream join holds, by what is said of how long its sides keep rows."""

from __future__ import annotations

from collections.abc import Iterable


def predicted_state_rows(sides: Iterable[tuple[Iterable[int], int | None]], watermark_ms: int) -> int:
    """Return how many rows a join holds after a batch: ``numRowsTotal`` of Spark's progress.

    A left semi join holds at most as many, because a left row that has found its partner leaves.

    Args:
        sides: for each side the event times (as ``evicted_by`` has them) of all rows admitted so far that pass the
            side's own filters, in microseconds, and the side's retention in milliseconds, None for never evicted.
        watermark_ms: the watermark in force in the batch.
    """
    return sum(
        retention_ms is None or time_us > (watermark_ms - retention_ms) * 1_000
        for times_us, retention_ms in sides
        for time_us in times_us
    )
