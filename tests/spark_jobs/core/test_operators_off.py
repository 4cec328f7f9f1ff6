"""Off on every stateful operator, also behind another: the watermark is Spark's own, the ledger what the sink got."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import TimeWindow, row_level

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
    print_table,
)
from support.live_operators import COPY, JOINS, KINDS, WINDOWS, stream_of, with_copies
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

FILES = 8
OF_LIVE = ("live_moves", "ceiling_moves", "replays", "saved")


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, LiveCompared]]:
    """Return what each test compared, to be printed in the end."""
    rows: dict[str, LiveCompared] = {}
    yield rows
    print_table(request, "off", rows)


def batches_of(seed: str, first_id: int = 0) -> Batches:
    return trailing_batches(seed, FILES, trail_us=8 * SECOND_US, stray_us=25 * SECOND_US, first_id=first_id)


def run_twice(job: LiveJob, streams: Sequence[Batches], closing: Sequence[Batches], seed: str) -> None:
    """Run a job over half of its input, and again from its checkpoint over the rest."""
    halves: list[list[Group]] = [
        groups_of(random.Random(seed), [stream[part] for stream in streams])
        for part in (slice(FILES // 2), slice(FILES // 2, None))
    ]
    job.run(halves[0])
    job.run([*halves[1], closing])


@pytest.mark.parametrize("name", KINDS)
def test_the_ledger_of_an_operator_equals_the_sink(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared], name: str
) -> None:
    kind, seed = KINDS[name], f"{name}, off"
    batches, closing = stream_of(kind, seed, batches_of(seed))
    granule = None if isinstance(kind.operator, TimeWindow) else "1 ms"
    entry = Input(name="in", operator=kind.operator, bound="3 seconds", ceiling=None, granule=granule)
    job = LiveJob(spark, tmp_path, [entry], kind.plan, kind.output_mode, mode="Off")
    for key, value in kind.conf:
        spark.conf.set(key, value)
    try:
        run_twice(job, [batches], [closing], seed)
    finally:
        for key, _ in kind.conf:
            spark.conf.unset(key)
    compared = table[name] = LiveCompared()
    batches = [*batches, *closing]
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_ledger(job, 0, batches, compared)
    wrong += compare_sink(job, kind, fates_of(job, 0, batches), compared)

    assert wrong == []
    absent = {*OF_LIVE, *OF_JOINS, *(() if kind.distinct else OF_DISTINCT)}
    if kind.output_mode == "complete":
        absent |= {"no_data", "late", "late_partitions"}  # nothing is ever late, and nothing closes
        assert compared.late == 0
    assert compared.missing(*absent) == []


@pytest.mark.parametrize("name", JOINS)
def test_a_join_emits_the_pairs_that_the_ledgers_of_its_inputs_admit(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared], name: str
) -> None:
    kind, seed = JOINS[name], f"{name.removesuffix(WINDOWS)}, off 3"
    streams = [batches_of(f"{seed}, left"), batches_of(f"{seed}, right", COPY)]
    if kind.distinct:
        streams[0] = with_copies(seed, streams[0])
    closing = [[closing_batch()], [closing_batch(10**9 + 10)]]
    inputs = [
        Input(name=side, operator=row_level(), bound=bound, ceiling=None, granule="1 ms")
        for side, bound in (("left", "3 seconds"), ("right", "5 seconds"))
    ]
    job = LiveJob(spark, tmp_path, inputs, kind.plan, mode="Off")
    run_twice(job, streams, closing, seed)
    compared = table[f"join, {name}"] = LiveCompared()
    streams = [[*batches, *last] for batches, last in zip(streams, closing, strict=True)]
    wrong = compare_watermarks(job, streams, compared)
    for index, batches in enumerate(streams):
        wrong += compare_ledger(job, index, batches, compared)
    left, right = (fates_of(job, index, batches) for index, batches in enumerate(streams))
    wrong += compare_pairs(job, kind, left, right, compared)

    assert wrong == []
    assert compared.missing(*OF_LIVE, *absent_of(kind)) == []
