"""The trace format: what is read, what is refused and in which words, and that nothing is half-written."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemark.controller.lab.traces.format import (
    COLUMNS,
    MAX_TIME_US,
    OpenTrace,
    Trace,
    TraceError,
    read_trace,
    write_trace,
)

GOOD: dict[str, list[Any]] = {
    "seq": [0, 1, 5],
    "event_time_us": [30, -10, 20],
    "arrival_time_us": [40, 40, 50],
    "partition": ["b", "a", "b"],
}


def saved(folder: Path, **changes: Any) -> Path:
    """Write a Parquet file of ``GOOD`` with changed columns; None leaves a column out."""
    columns = {name: values for name, values in {**GOOD, **changes}.items() if values is not None}
    path = folder / "trace.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def test_a_trace_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """Also over more rows than are read at a time, with partitions that appear late."""
    rows = 300_000
    trace = Trace(
        np.random.default_rng(1).integers(-(10**15), 10**15, rows),
        np.arange(rows) // 2,
        (np.arange(rows) // 100_000).astype(np.int32),
        ("first", "second", "third"),
    )
    write_trace(tmp_path / "trace.parquet", trace)
    read = read_trace(tmp_path / "trace.parquet")
    assert read.partitions == trace.partitions
    for name in ("event_time_us", "arrival_time_us", "partition"):
        assert np.array_equal(getattr(read, name), getattr(trace, name)), name
    assert pq.read_table(tmp_path / "trace.parquet").column("seq").to_pylist() == list(range(rows))


def test_a_trace_is_read_in_parts(tmp_path: Path) -> None:
    """A trace may be larger than memory."""
    rows = 300_000
    write_trace(
        tmp_path / "t", Trace(np.zeros(rows, np.int64), np.arange(rows), np.zeros(rows, np.int32), ("p",))
    )
    opened = OpenTrace(tmp_path / "t")
    sizes = [len(part) for part in opened.batches()]
    assert opened.rows == sum(sizes) == rows
    assert max(sizes) < rows


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_partitions_may_be_any_kind_of_text(tmp_path: Path, kind: pa.DataType) -> None:
    """Each writer has its own."""
    trace = read_trace(saved(tmp_path, partition=pa.array(["b", "a", "b"]).cast(kind)))
    assert [trace.partitions[index] for index in trace.partition] == ["b", "a", "b"]


def test_further_columns_are_ignored(tmp_path: Path) -> None:
    """A trace may carry what its maker likes."""
    assert len(read_trace(saved(tmp_path, value=[1.5, None, 2.5]))) == 3


@pytest.mark.parametrize("name", COLUMNS)
def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path, name: str) -> None:
    """So that a wrong name is found at once."""
    there = ", ".join(column for column in COLUMNS if column != name)
    with pytest.raises(TraceError, match=f"{name} is missing, there are: {there}$"):
        read_trace(saved(tmp_path, **{name: None}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seq": [0.0, 1.0, 2.0]}, "column 'seq' is of type double, a trace has int64 there"),
        (
            {"event_time_us": [datetime(1970, 1, day) for day in (1, 2, 3)]},  # noqa: DTZ001 - without a zone
            r"column 'event_time_us' is of type timestamp\[us\]",
        ),
        ({"partition": [1, 2, 3]}, "column 'partition' is of type int64, a trace has string there"),
        ({"event_time_us": [1, 2, None]}, "column 'event_time_us' is null at row 2"),
        ({"partition": ["a", None, "b"]}, "column 'partition' is null at row 1"),
        ({"seq": [0, 2, 1]}, "column 'seq' must ascend, but is 1 after 2 at row 2"),
        ({"seq": [0, 0, 1]}, "column 'seq' must ascend, but is 0 after 0 at row 1"),
        ({"arrival_time_us": [5, 4, 6]}, "column 'arrival_time_us' must ascend, but is 4 after 5 at row 1"),
        (
            {"event_time_us": [1, 2, MAX_TIME_US + 1]},
            "'event_time_us' holds 1152921504606846977, which is not a time",
        ),
    ],
)
def test_what_is_not_a_trace_is_rejected_in_one_line(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """With the file, the column, and the row where there is one."""
    path = saved(tmp_path, **changes)
    with pytest.raises(TraceError, match=said) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_order_is_checked_across_the_parts_that_are_read(tmp_path: Path) -> None:
    """The last row of one part and the first of the next."""
    rows = 1 << 17
    seq = [*range(rows), rows - 1]
    table = {"seq": seq, "event_time_us": seq, "arrival_time_us": seq, "partition": ["p"] * len(seq)}
    pq.write_table(pa.table(table), tmp_path / "t")
    with pytest.raises(TraceError, match=f"is {rows - 1} after {rows - 1} at row {rows}"):
        read_trace(tmp_path / "t")


@pytest.mark.parametrize("content", [b"", b"seq,event_time_us", b"PAR1 and nothing behind it"])
def test_a_file_that_is_not_parquet_is_rejected(tmp_path: Path, content: bytes) -> None:
    """In one line, not in a traceback."""
    path = tmp_path / "trace.parquet"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="not a Parquet file"):
        read_trace(path)


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    """The likeliest slip of all."""
    with pytest.raises(TraceError, match=r"none\.parquet: there is no such file"):
        read_trace(tmp_path / "none.parquet")


def test_a_file_whose_pages_are_damaged_is_rejected(tmp_path: Path) -> None:
    """The footer is whole and the rows are not."""
    path = saved(tmp_path)
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(bytes(content))
    with pytest.raises(TraceError, match="the file is damaged"):
        read_trace(path)


def test_a_trace_without_rows_is_a_trace(tmp_path: Path) -> None:
    """Whoever needs rows says so."""
    write_trace(
        tmp_path / "t", Trace(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), ())
    )
    assert len(read_trace(tmp_path / "t")) == 0


def test_arrivals_out_of_order_are_not_written(tmp_path: Path) -> None:
    """It would be refused when it is read."""
    times = np.array([2, 1], np.int64)
    with pytest.raises(TraceError, match="must ascend"):
        write_trace(tmp_path / "t", Trace(times, times, np.zeros(2, np.int32), ("p",)))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_trace_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full half-way: what was there is still there, whole."""
    path = saved(tmp_path)
    before = path.read_bytes()

    def fails_half_way(_: pa.Table, where: Path, **_options: Any) -> None:
        where.write_bytes(b"PAR1")
        raise OSError("no space left on device")

    monkeypatch.setattr(pq, "write_table", fails_half_way)
    one = np.zeros(1, np.int64)
    with pytest.raises(TraceError, match="cannot be written: no space left on device"):
        write_trace(path, Trace(one, one, np.zeros(1, np.int32), ("p",)))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
