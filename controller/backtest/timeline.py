"""The batches of one replay as a Parquet file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.controller.runtime.whole_file import whole_file
from tidemark.controller.traces.format import one_line
from tidemark.models.backtest.run import BacktestRun
from tidemark.models.backtest.spark import NO_BOUND_US
from tidemark.models.live.policy import NO_BASE_US

COLUMNS = pa.schema(
    [
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("wall_time_us", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bound_us", pa.int64()),
        pa.field("watermark_us", pa.int64()),
    ]
)
"""Columns of a timeline. It has a row for each batch, no-data and control batches included."""


def write_timeline(path: Path, run: BacktestRun) -> None:
    """Write the batches of ``run`` to ``path``, whole or not at all.

    Raises:
        ValueError: when the file cannot be written.
    """
    table = pa.table(
        [
            np.arange(len(run.wall_us), dtype=np.int64),
            run.wall_us,
            run.rows,
            pa.array(run.bound_us, mask=run.bound_us == NO_BOUND_US),
            pa.array(run.watermark_us, mask=run.watermark_us <= NO_BASE_US),
        ],
        schema=COLUMNS,
    )
    try:
        with whole_file(path) as unfinished:
            pq.write_table(table, unfinished, compression="zstd")
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: cannot be written: {one_line(error)}") from None
