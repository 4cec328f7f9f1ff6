"""The plan of a demonstration: at most 150 batches, whatever the trace looks like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemark.controller.lab.traces.format import COLUMNS
from tidemark.spark_jobs.demo.generator import (
    PARTITIONS,
    SLOW_PARTITION,
    SLOW_SECONDS,
    START_US,
    GeneratedRows,
    generate,
)
from tidemark.spark_jobs.demo.plan import (
    MAX_BATCHES,
    TRACE_COLUMNS,
    FileFeed,
    nice_duration_us,
    plan_of,
    read_trace,
    rows_of,
    slots_used,
    write_trace,
)

SHAPES = {
    "even": np.arange(10_000) * 1_000_000,
    "with a gap of years": np.concatenate([np.arange(500), 10**14 + np.arange(500)]) * 1_000,
    "all at once": np.zeros(50, np.int64),
    "one row": np.zeros(1, np.int64),
    "sparse": np.arange(40) ** 3 * 10**9,
}


def _arrivals(times: np.ndarray) -> GeneratedRows:
    return GeneratedRows(times.astype(np.int64), times.astype(np.int64), np.full(len(times), "p"))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_trace_is_coarsened_to_at_most_150_batches_and_no_coarser_than_that(shape: str) -> None:
    arrivals = _arrivals(SHAPES[shape])
    plan = plan_of(Path("trace"), arrivals)

    assert plan.batches == len(slots_used(arrivals.arrival_time_us, plan.slot_us)) <= MAX_BATCHES
    finer = plan.slot_us - max(2_000, plan.slot_us // 50)
    if finer > 0:
        assert len(slots_used(arrivals.arrival_time_us, finer)) > MAX_BATCHES


@pytest.mark.parametrize("shape", ["even", "with a gap of years", "sparse"])
def test_the_bound_changes_between_two_batches_in_the_middle(shape: str) -> None:
    arrivals = _arrivals(SHAPES[shape])
    plan = plan_of(Path("trace"), arrivals)
    slots = (arrivals.arrival_time_us - arrivals.arrival_time_us[0]) // plan.slot_us

    assert slots[plan.switch_rows - 1] < slots[plan.switch_rows]
    assert abs(len(np.unique(slots[: plan.switch_rows])) - plan.batches / 2) <= 1


def test_a_trace_that_fits_one_batch_has_all_its_rows_before_the_switch() -> None:
    """There is nothing to run after it, which the second run finds at once."""
    assert plan_of(Path("trace"), _arrivals(SHAPES["one row"])).switch_rows == 1


def test_a_batch_runs_when_its_slot_ends() -> None:
    plan = plan_of(Path("trace"), _arrivals(np.array([5, 6, 14, 31])), slot_us=10)

    assert [plan.wall_us(rows) for rows in (1, 2, 3, 4)] == [15, 15, 15, 35]


def test_rows_survive_the_way_to_disk_and_back(tmp_path: Path) -> None:
    arrivals = generate(5, 50, 3)
    write_trace(tmp_path / "trace.parquet", arrivals)
    back = read_trace(tmp_path / "trace.parquet")

    np.testing.assert_array_equal(arrivals.event_time_us, back.event_time_us)
    np.testing.assert_array_equal(arrivals.arrival_time_us, back.arrival_time_us)
    np.testing.assert_array_equal(arrivals.partition, back.partition)


def test_a_trace_without_rows_is_rejected(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace.parquet", _arrivals(np.empty(0)))
    with pytest.raises(ValueError, match="has no rows"):
        read_trace(tmp_path / "trace.parquet")


def test_durations_are_rounded_up_to_one_that_a_person_would_choose() -> None:
    given = [1, 11_000, 4_338_000, 61_000_000, 281_664_000_000, 30 * 86_400_000_000]

    assert [nice_duration_us(least) for least in given] == [
        10_000,
        20_000,
        5_000_000,
        120_000_000,
        7 * 86_400_000_000,
        30 * 86_400_000_000,
    ]


def test_the_fleet_has_sixteen_partitions_one_that_is_slow_for_a_while_and_flushes_that_come_late() -> None:
    fleet = generate(240, 400, 1)
    delay_s = (fleet.arrival_time_us - fleet.event_time_us) / 1e6
    begin_us, end_us = (START_US + second * 1_000_000 for second in SLOW_SECONDS)
    slow = (fleet.partition == str(SLOW_PARTITION)) & (fleet.event_time_us >= begin_us)
    slow &= fleet.event_time_us < end_us
    flushed = (delay_s > 15) & ~slow

    assert len(np.unique(fleet.partition)) == PARTITIONS
    assert delay_s[slow].min() > 15
    assert np.quantile(delay_s[~slow], 0.98) < 8
    assert set(fleet.partition[flushed].tolist()) == {"3", "11"}
    assert (np.diff(fleet.arrival_time_us) >= 0).all()
    np.testing.assert_array_equal(fleet.event_time_us, generate(240, 400, 1).event_time_us)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_files_of_the_feed_hold_each_row_once_in_the_batch_of_its_slot(
    shape: str, tmp_path: Path
) -> None:
    arrivals = _arrivals(SHAPES[shape])
    plan = plan_of(Path("trace"), arrivals)
    feed = FileFeed(plan, tmp_path / "slots")
    feed.send(plan.switch_rows)
    before = len(list((tmp_path / "slots").iterdir()))
    feed.send(plan.rows)
    files = sorted((tmp_path / "slots").iterdir(), key=lambda file: file.stat().st_mtime)
    taken = np.cumsum([pq.read_metadata(file).num_rows for file in files])

    assert len(files) == plan.batches
    assert taken[before - 1] == plan.switch_rows
    assert taken[-1] == plan.rows
    assert [feed.rows_read(f'{{"logOffset":{number}}}') for number in range(len(files))] == taken.tolist()
    assert plan.batch_ends().tolist() == taken.tolist()


def test_a_file_that_is_no_trace_says_which_columns_it_lacks(tmp_path: Path) -> None:
    """The user has some Parquet; `tidemark trace` makes a trace of it."""
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"seq": [1], "when": [2]}), path)
    with pytest.raises(ValueError, match="lacks event_time_us, arrival_time_us, partition; it has seq, when"):
        rows_of(path)


def test_the_demonstration_and_the_trace_command_mean_the_same_columns() -> None:
    """They cannot share the definition: the sides of the job and of the controller import only models."""
    assert tuple(COLUMNS) == TRACE_COLUMNS


def test_a_trace_out_of_order_is_rejected(tmp_path: Path) -> None:
    """Its batches would mean nothing."""
    path = tmp_path / "shuffled.parquet"
    columns = {"seq": [1, 0], "event_time_us": [0, 0], "arrival_time_us": [1, 0], "partition": ["a", "a"]}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ValueError, match="seq goes back"):
        rows_of(path)
