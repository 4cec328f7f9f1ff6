"""Counts by key as short text: what is written is what is read."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from tidemark.models.base.granules import Granules
from tidemark.spark_jobs.core.key_counts import NAME_AND_NUMBER, Key, compacted, expanded, key_counter
from tidemark.spark_jobs.core.tap import Tap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAMES = ("", "a", "a/b", "a:1", "a:-1", "with space", 'with "quotes" and \\', "größer", "line\nbreak", "7")
LISTS = 60


def _keys(chance: random.Random, named: bool) -> list[Key]:
    """Return distinct keys: runs of neighbours, and numbers that are far apart, negative and extreme."""
    numbers = {
        chance.choice((-1, 1)) * chance.randrange(1 << chance.randrange(1, 62))
        for _ in range(chance.randrange(5))
    }
    # The packed keys of partitions whose numbers do not fit, of rows on time and future-dated ones.
    numbers |= {*chance.sample((-(1 << 63), (1 << 63) - 1, 1 << 45), chance.randrange(3))}
    first = chance.randrange(-5, 1 << 40)
    numbers |= {first + chance.choice((1, 2)) * number for number in range(chance.randrange(20))}
    if not named:
        return [*numbers]
    chosen = chance.sample(NAMES, chance.randrange(1, len(NAMES)))
    return [*{(chance.choice(chosen), number) for number in numbers}]


@pytest.mark.parametrize("named", [False, True], ids=["numbers", "names and numbers"])
@pytest.mark.parametrize("step", [1, 2])
def test_counts_are_read_as_they_were_written(spark: SparkSession, named: bool, step: int) -> None:
    chance = random.Random(f"{named}, {step}")
    lists = [[(key, chance.choice((1, 41, 1 << 40))) for key in _keys(chance, named)] for _ in range(LISTS)]
    rows = [
        (
            number,
            [
                (key if isinstance(key, int) else f"{key[0]}{NAME_AND_NUMBER}{key[1]}", count)
                for key, count in entries
            ],
        )
        for number, entries in enumerate(lists)
    ]
    item = "string" if named else "bigint"
    df = spark.createDataFrame(rows, f"id int, entries array<struct<item: {item}, count: bigint>>")
    written = df.select("id", compacted(F.col("entries"), named=named, step=step).alias("keys")).collect()

    assert len(written) == LISTS
    for row in written:
        names = row["keys"]["names"] if named else None
        assert sorted(expanded(row["keys"]["cells"], names, step)) == sorted(lists[row["id"]])


def test_a_run_of_neighbours_takes_their_counts_alone(spark: SparkSession) -> None:
    entries = "transform(sequence(0, 3), i -> named_struct('item', 70000L + 2 * i, 'count', 9L - i))"
    [[keys]] = spark.range(1).select(compacted(F.expr(entries), named=False, step=2)).collect()

    assert keys["cells"] == "/70000:9 8 7 6"


@pytest.mark.parametrize("partition", ["partition", "name"])
def test_what_is_observed_of_96_000_pairs_takes_two_letters_for_each(
    spark: SparkSession, partition: str
) -> None:
    rows = spark.range(0, 192_000, 1, 2).selectExpr(
        "int(id % 16) as partition",
        "concat('device-', id % 16) as name",
        "timestamp_seconds(1700000000 + id div 16 % 6000) as ts",
    )
    tap = Tap("ts", partition, 1_000_000, None)
    observed = tap.count(rows)
    counts = tap.decode(observed, Granules(1_000_000, "left"))

    assert len(observed) <= 2 * 96_000 + 1_000
    assert (counts.rows, len(counts.by_granule.partitions)) == (192_000, 16)
    assert {count for part in counts.by_granule.by_partition() for count in part.counts} == {2}


def test_a_plan_that_has_run_does_not_hold_what_it_counted(spark: SparkSession) -> None:
    """It would be sent to the executors with every task of the next batch."""
    columns = key_counter().columns(F.col("id"), 98_304, packed=True, step=1)
    counted = spark.range(50_000).observe(Observation(), *columns)
    counted.write.format("noop").mode("overwrite").save()
    jvm = spark._jvm
    assert jvm is not None
    serializer = jvm.org.apache.spark.SparkEnv.get().closureSerializer().newInstance()
    expressions = counted._jdf.queryExecution().analyzed().expressions()
    written = serializer.serialize(expressions, jvm.scala.reflect.ClassTag.Any())

    assert 0 < written.limit() < 100_000
