"""The interval of a share, exact for independent rows (Clopper-Pearson)."""

from __future__ import annotations

import math

from tidemark.models.target import PPM


def interval_ppm(late: int, rows: int, confidence_ppm: int) -> tuple[int | None, int | None]:
    """Return both ends of the interval of the share of ``rows`` that was admitted, in parts per million; None without
    rows.

    Args:
        late: rows that were late.
        rows: rows in all.
        confidence_ppm: confidence of the interval in parts per million, both ends together.
    """
    if not rows:
        return None, None
    from scipy.special import betaincinv  # noqa: PLC0415 - a process that decides nothing need not load it

    tail = (1 - confidence_ppm / PPM) / 2
    admitted = rows - late
    lowest = float(betaincinv(admitted, late + 1, tail)) if admitted else 0.0
    highest = float(betaincinv(admitted + 1, late, 1 - tail)) if late else 1.0
    return math.floor(lowest * PPM), math.ceil(highest * PPM)
