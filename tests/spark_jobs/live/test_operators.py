"""Live on every stateful operator: the watermark is the required one, and the ledger equals the sink."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.duration import parse_duration

from support.live_comparisons import (
    OF_DISTINCT,
    OF_JOINS,
    LiveCompared,
    absent_of,
    compare_ledger,
    compare_pairs,
    compare_sink,
    compare_watermarks,
    fates_of,
    rows_by_batch,
    saved,
)
from support.live_operators import (
    BEYOND,
    COPY,
    FIVE,
    FOUR,
    JOINED,
    JOINS,
    KINDS,
    WINDOWS,
    join,
    stream_of,
    windows,
    with_copies,
)
from support.live_streams import (
    SECOND_US,
    Batches,
    Group,
    Input,
    LiveJob,
    closing_batch,
    groups_of,
    trailing_batches,
)
from support.soak import with_soak
from support.spark_streams import EPOCH_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND = "3 seconds"
FILES = 6
SHORT = {"tumbling, append", "transformWithState, timers"}
"""Operators of `make test`; `make soak` has all of them."""
JOIN_FILES = 8
"""Pairs need more rows before each of their fates has come up."""


# -- what is required -----------------------------------------------------------------------------------------


@dataclass
class _Newest:
    """The newest event time of each partition of one input."""

    bound_us: int
    bases_us: dict[str, int] = field(default_factory=dict)

    def add(self, rows: Sequence[Row]) -> None:
        """Take the rows of a batch."""
        for row in rows:
            name = str(row.partition)
            self.bases_us[name] = max(self.bases_us.get(name, row.event_time_us), row.event_time_us)

    @property
    def wants_us(self) -> int:
        """The minimum of them less the bound."""
        return min(self.bases_us.values()) - self.bound_us


def compare_moves(job: LiveJob, streams: Sequence[Batches], *, closes: bool = True) -> list[str]:
    """Compare what was required with the minimum, over the partitions, of newest time less bound; return what is wrong.

    It may not be above that, nor further below than the granules in which the driver knows times. At rest nothing that
    has arrived and lies below it may be open, where the operator ``closes`` anything by a watermark: in complete mode
    Spark runs no batch for one. Over a restart the driver knows what it has read.
    """
    log, moves, wrong = job.log(), job.moves(), []
    slack_us = 2 * max(entry.granule_us for entry in job.inputs)
    read = [rows_by_batch(log, index, batches) for index, batches in enumerate(streams)]
    fates = [fate for index, batches in enumerate(streams) for fate in fates_of(job, index, batches)]
    newest = [_Newest(parse_duration(entry.bound)) for entry in job.inputs]
    wants_us = []
    for number, now in enumerate(log):
        for index, rows in enumerate(read):
            newest[index].add(rows[number])
        wants_us.append(min(each.wants_us for each in newest))
        if closes and number in job.idle_after:
            wrong += [
                f"at rest after batch {number}: {fate} is open, though due"
                for fate in fates
                if fate.batch <= number and now.watermark_ms * 1_000 < fate.key_us <= wants_us[-1] - slack_us
            ]
    for move in moves:
        # Before the first batch of a run nothing says what is known for sure.
        known_us = wants_us[move.known] if move.known >= 0 else min(wants_us)
        least_us, most_us = known_us - slack_us, wants_us[move.may_know]
        if not least_us < move.watermark_ms * 1_000 <= most_us:
            wrong.append(f"{move}: not in ({least_us}, {most_us}]")
    return wrong


# -- the operators ------------------------------------------------------------------------------------------


def _groups(seed: str, streams: Sequence[Batches]) -> tuple[list[Group], list[Group]]:
    """Return groups, and groups of batches back to back, for the query to die in one of them."""
    files = len(streams[0])
    before = groups_of(random.Random(seed), [stream[: files // 2] for stream in streams])
    return before, [[stream[at : at + 3] for stream in streams] for at in range(files // 2, files, 3)]


# What is proven of an operator in one mode says nearly all of it in another: each runs here or over restarts at least.
@pytest.mark.parametrize("name", with_soak(KINDS, KINDS.keys() - SHORT, FOUR))
def test_live_moves_the_watermark_as_required_and_the_ledger_equals_the_sink(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared], name: str
) -> None:
    """For every operator: over no-data batches, a crash, and a batch that is run again."""
    kind = KINDS[name]
    seed = f"{name} {kind.seed}" if kind.seed else name
    batches, closing = stream_of(kind, seed, trailing_batches(seed, FILES))
    entry = Input(name="in", operator=kind.operator, bound=BOUND, ceiling=kind.ceiling)
    job = LiveJob(spark, tmp_path, [entry], kind.plan, kind.output_mode)
    before, after = _groups(seed, [batches])
    for key, value in kind.conf:
        spark.conf.set(key, value)
    try:
        job.run([*before, *after, [closing]], crash_from=len(before))
    finally:
        for key, _ in kind.conf:
            spark.conf.unset(key)
    compared = table[name] = LiveCompared()
    batches = [*batches, *closing]
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_moves(job, [batches], closes=kind.output_mode != "complete")
    wrong += compare_ledger(job, 0, batches, compared)
    fates = fates_of(job, 0, batches)
    wrong += compare_sink(job, kind, fates, compared)
    compared.saved = saved(job, fates)

    assert wrong == []
    absent = {*OF_JOINS, *(() if kind.distinct else OF_DISTINCT)}
    if kind.output_mode == "complete":
        absent |= {"no_data", "late", "late_partitions"}  # nothing is ever late, and nothing closes
        assert compared.late == 0
    assert compared.missing(*absent) == []


# -- what stands between --------------------------------------------------------------------------------------


def test_a_filter_between_the_watermark_and_the_operator_leaves_live_in_force(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Filters stand after the watermark as often as before it; an inner join brings its own, that keys are no nulls."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(
        spark, tmp_path, [entry], lambda inputs: windows("5 seconds")([inputs[0].filter("id >= 0")])
    )
    batches = [_rows(number, (0, second), (1, second)) for number, second in enumerate((100, 110, 120))]
    job.run([[[rows]] for rows in batches])
    compared = LiveCompared()

    assert compare_watermarks(job, [batches], compared) == []
    assert compared.live_moves > 0


# -- what a restart forgets -----------------------------------------------------------------------------------


def _rows(batch: int, *rows: tuple[int, float]) -> list[Row]:
    """Return rows of (partition, seconds)."""
    hour_us = EPOCH_US + 3_600 * SECOND_US
    return [
        Row(100 * batch + number, partition, hour_us + int(seconds * SECOND_US))
        for number, (partition, seconds) in enumerate(rows)
    ]


@pytest.mark.versions
def test_what_was_open_at_a_restart_closes_as_soon_as_without_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Else the hour before a restart waits for the end of the hour after it."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"))
    batches = [_rows(0, (0, 100)), _rows(1, (0, 200))]
    for rows in batches:
        job.run([[[rows]]])

    assert compare_moves(job, [batches]) == []
    assert [ids for entries in job.output.values() for _, ids in entries] == [(0,)]


def test_a_partition_that_holds_the_watermark_back_does_so_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A watermark that went too far is in the checkpoint and cannot be taken back."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"))
    seconds: list[list[tuple[int, float]]] = [[(0, 100), (1, 100)], [(0, 120), (1, 120)], [(2, 117.5)]]
    seconds += [[(0, 180), (1, 180)], [(0, 200), (1, 200)], [(2, 118.5)]]
    batches = [_rows(number, *rows) for number, rows in enumerate(seconds)]
    job.run([[[rows]] for rows in batches[:3]])
    job.run([[[rows]] for rows in batches[3:]])

    assert [fate.row for fate in fates_of(job, 0, batches) if fate.late] == []
    assert compare_moves(job, [batches]) == []


def test_the_partitions_of_every_input_are_known_before_the_first_move_after_a_crash(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The batch that is run again may hold the fast partitions only."""
    seconds = (100, 115, 130)
    streams = [
        [_rows(number, (0, second), (1, second)) for number, second in enumerate(seconds)],
        [_rows(10 + number, (0, second), (2, second - 50)) for number, second in enumerate(seconds)],
    ]
    streams[0].append(_rows(3, (0, 120.5), (0, 135), (1, 135)))
    streams[1].append(_rows(13, (0, 135)))
    job = LiveJob(spark, tmp_path, JOINED, join("inner"))
    groups = [[stream[number : number + 1] for stream in streams] for number in range(2)]
    job.run([*groups, [stream[2:] for stream in streams]], crash_from=0)

    assert compare_moves(job, streams) == []


def test_a_straggler_in_a_batch_that_is_run_again_sets_no_partition_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Else the watermark waits, after a crash, until that partition has rows again."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"))
    batches = [
        _rows(0, (0, 100), (1, 100), (2, 60)),
        _rows(1, (0, 110), (1, 110), (2, 70)),
        _rows(2, (0, 120), (1, 120), (2, 80)),
        _rows(3, (1, 90)),
        _rows(4, (0, 130), (2, 110)),
    ]
    job.run([[batches[:1]], [batches[1:2]], [batches[2:4]], [batches[4:]]], crash_from=0)

    assert compare_moves(job, [batches]) == []


# -- joins ----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", with_soak(JOINS, JOINS.keys() - {"leftOuter"}))
def test_a_live_join_emits_a_pair_iff_the_ledgers_of_its_inputs_admit_both_rows(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared], name: str
) -> None:
    """Each input has partitions, a slow one and a bound of its own; one watermark serves both."""
    kind, seed = JOINS[name], name.removesuffix(WINDOWS)
    streams = [
        trailing_batches(f"{seed}, left", JOIN_FILES, trail_us=20 * SECOND_US, stray_us=75 * SECOND_US),
        trailing_batches(f"{seed}, right", JOIN_FILES, partitions=4, first_id=COPY),
    ]
    if kind.distinct:
        streams[0] = with_copies(seed, streams[0])
    job = LiveJob(spark, tmp_path, JOINED, kind.plan)
    closing = [closing_batch(), closing_batch(10**9 + 10, 4)]
    before, after = _groups(seed, streams)
    job.run([*before, *after, [[rows] for rows in closing]], crash_from=len(before))
    compared = table[f"join, {name}"] = LiveCompared()
    streams = [[*batches, rows] for batches, rows in zip(streams, closing, strict=True)]
    wrong = compare_watermarks(job, streams, compared)
    wrong += compare_moves(job, streams)
    for index, batches in enumerate(streams):
        wrong += compare_ledger(job, index, batches, compared)
    left, right = (fates_of(job, index, batches) for index, batches in enumerate(streams))
    wrong += compare_pairs(job, kind, left, right, compared)
    compared.saved = saved(job, left)

    assert wrong == []
    assert compared.missing(*absent_of(kind)) == []
