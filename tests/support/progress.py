"""The progress of a stream from batches as objects, such as reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tidemark.models.evidence.horizon import UNKNOWN
from tidemark.models.evidence.progress import PACE_COLUMNS, PartitionTimes, Progress, progress_of_table


def progress_of(
    batches: Sequence[object], partitions: Iterable[PartitionTimes], *, silent_us: int | None = None
) -> Progress:
    """Return what ``progress_of_table`` says of ``batches``, which have its columns as attributes."""
    rows = [
        [UNKNOWN if (value := getattr(batch, name)) is None else value for name in PACE_COLUMNS]
        for batch in batches
    ]
    return progress_of_table(np.array(rows, np.int64).reshape(-1, 4), partitions, silent_us=silent_us)
