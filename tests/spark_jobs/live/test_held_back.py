"""What holds Live back: a pin, and every other mode, in which a ceiling changes nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.protocol.messages import Mode

from support.live_comparisons import (
    OF_DISTINCT,
    OF_JOINS,
    LiveCompared,
    compare_ledger,
    compare_pairs,
    compare_sink,
    compare_watermarks,
    fates_of,
    saved,
)
from support.live_operators import (
    BEYOND,
    COPY,
    JOINED,
    JOINS,
    KINDS,
    Plan,
    join,
    windows,
)
from support.live_streams import (
    SECOND_US,
    Batches,
    Group,
    Input,
    LiveJob,
    closing_batch,
    groups_of,
    run_side_by_side,
    trailing_batches,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND = "3 seconds"
FILES = 6


# -- pins -----------------------------------------------------------------------------------------------------


def _run_pinned(spark: SparkSession, folder: Path, pin: str, ceiling: str) -> tuple[LiveJob, Batches]:
    batches = trailing_batches(f"pin {pin}", FILES)
    entry = Input(name="in", operator=tumbling("20 s"), bound=BOUND, ceiling=ceiling)
    job = LiveJob(spark, folder, [entry], windows("20 seconds"))
    spark.conf.set("spark.tidemark.pin", pin)
    try:
        job.run([*groups_of(random.Random(pin), [batches]), [[closing_batch()]]])
    finally:
        spark.conf.unset("spark.tidemark.pin")
    return job, [*batches, closing_batch()]


def test_pin_off_gives_spark_s_own_watermark_as_soon_as_that_closes_something(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared]
) -> None:
    """What is required is M - bound, M the maximum event time of all batches so far.

    It stays where it was as long as no window would close that holds a row, since to move it would change nothing.
    """
    job, batches = _run_pinned(spark, tmp_path, "off", BEYOND)
    compared = table["tumbling, pin off"] = LiveCompared()
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_ledger(job, 0, batches, compared)
    wrong += compare_sink(job, KINDS["tumbling, append"], fates_of(job, 0, batches), compared)
    fates = fates_of(job, 0, batches)
    native_ms = [
        max(f.row.event_time_us for f in fates if f.batch <= number) // 1_000 - 3_000
        for number in range(len(job.log()))
    ]
    before_ms = 0
    for move in job.moves():
        if move.watermark_ms not in native_ms[move.known : move.may_know + 1]:
            wrong.append(f"{move}: natively {native_ms[move.known]}")
        closes = any(
            fate.batch <= move.may_know and before_ms < fate.key_us // 1_000 <= move.watermark_ms
            for fate in fates
        )
        if not closes:
            wrong.append(f"{move} closes nothing")
        before_ms = move.watermark_ms

    assert wrong == []
    assert 0 < len(job.moves()) < len({*native_ms}), "now and then it stays"
    absent = (*OF_JOINS, *OF_DISTINCT, "restarts", "replays", "saved")
    assert compared.missing(*absent) == []


def test_pin_ceiling_leaves_the_ceiling_alone_to_move_the_watermark(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared]
) -> None:
    """W(n+1) = max(W(n), m(n) - ceiling): nothing is required."""
    job, batches = _run_pinned(spark, tmp_path, "ceiling", "20 seconds")
    compared = table["tumbling, pin ceiling"] = LiveCompared()
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_ledger(job, 0, batches, compared)
    fates = fates_of(job, 0, batches)
    wrong += compare_sink(job, KINDS["tumbling, append"], fates, compared)
    compared.saved = saved(job, fates)

    assert wrong == []
    assert job.moves() == []
    absent = (*OF_JOINS, *OF_DISTINCT, "restarts", "replays", "live_moves")
    assert compared.missing(*absent) == []


# -- a ceiling in the other modes -----------------------------------------------------------------------------


def _beside_native(
    spark: SparkSession,
    folder: Path,
    mode: Mode,
    inputs: Sequence[Input],
    plan: Plan,
    groups: Sequence[Group],
) -> tuple[LiveJob, LiveJob]:
    """Run a query with a ceiling and one with ``withWatermark`` over the same files."""
    native = LiveJob(spark, folder / "native", inputs, plan, native=True, stage=folder)
    silent = LiveJob(spark, folder / "silent", inputs, plan, mode=mode, stage=folder)
    run_side_by_side([native, silent], groups)
    return native, silent


def _batches_of(job: LiveJob) -> list[tuple[int, tuple[int, ...], list[object]]]:
    """Return of each batch the watermark, the files read, and what came out."""
    return [
        (logged.watermark_ms, logged.files, sorted(job.output[number], key=repr))
        for number, logged in enumerate(job.log())
    ]


def test_in_other_modes_a_ceiling_leaves_every_batch_and_its_watermark_as_spark_has_them(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared]
) -> None:
    mode: Mode = "OnRestart"
    name = "sliding"
    kind = KINDS[name]
    entry = Input(name="in", operator=kind.operator, bound=BOUND, ceiling="2 hours", granule="1 ms")
    batches, closing = trailing_batches(f"{mode}, silent", FILES), closing_batch()
    groups = [*groups_of(random.Random(mode), [batches]), [[closing]]]
    native, silent = _beside_native(spark, tmp_path, mode, [entry], kind.plan, groups)
    compared = table[f"{name}, {mode}"] = LiveCompared()
    wrong = compare_watermarks(silent, [[*batches, closing]], compared)
    wrong += compare_ledger(silent, 0, [*batches, closing], compared)
    compared.emitted = sum(map(len, native.output.values()))

    assert wrong == []
    assert _batches_of(silent) == _batches_of(native)
    assert silent.moves() == []
    live = ("restarts", "live_moves", "replays", "saved")
    assert compared.missing(*live, *OF_JOINS, *OF_DISTINCT) == []


@pytest.mark.soak
def test_in_mode_off_a_ceiling_on_both_inputs_of_a_join_leaves_every_batch_as_spark_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The slower input leads, as it does without Tidemark.

    All files are there from the start: while a query runs, it may list one input before they come and one after.
    """
    streams = [
        trailing_batches("silent join, left", FILES, stray_us=75 * SECOND_US),
        trailing_batches("silent join, right", FILES, partitions=4, first_id=COPY),
    ]
    native, silent = _beside_native(spark, tmp_path, "Off", JOINED, join("inner"), [streams])

    assert _batches_of(silent) == _batches_of(native)
    assert any(silent.output.values())


def test_an_input_in_live_beside_one_that_is_off_moves_its_own_watermark_and_spark_takes_the_lower_one(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared]
) -> None:
    streams = [
        trailing_batches("mixed, left", FILES, trail_us=20 * SECOND_US),
        trailing_batches("mixed, right", FILES, partitions=4, first_id=COPY),
    ]
    inputs = [JOINED[0], replace(JOINED[1], mode="Off")]
    job = LiveJob(spark, tmp_path, inputs, join("inner"))
    closing = [closing_batch(), closing_batch(10**9 + 10, 4)]
    job.run([*groups_of(random.Random("mixed"), streams), [[rows] for rows in closing]])
    streams = [[*batches, rows] for batches, rows in zip(streams, closing, strict=True)]
    compared = table["join, Live and Off"] = LiveCompared()
    wrong = compare_watermarks(job, streams, compared, steered=[0])
    for index, batches in enumerate(streams):
        wrong += compare_ledger(job, index, batches, compared)
    left, right = (fates_of(job, index, batches) for index, batches in enumerate(streams))
    wrong += compare_pairs(job, JOINS["inner"], left, right, compared)

    assert wrong == []
    assert compared.live_moves > 0
