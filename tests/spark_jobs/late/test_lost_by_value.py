"""Rows and losses by a dimension equal what came in and what came out, and the controller gets them all in the end."""

from __future__ import annotations

import math
import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from pyspark.sql import functions as F

from tidemark.models.base.operators import sliding, tumbling
from tidemark.models.evidence.late_counts import AGE_LIMITS_MS, ByValue, LossCounts
from tidemark.spark_jobs import side
from tidemark.spark_jobs.late.count_values import count_values
from tidemark.spark_jobs.late.late_rows import DueBatch, LateRule, with_batch

from support.controller_app import Controller
from support.late_streams import (
    CLOSING_ID,
    input_pairs,
    main_pairs,
    side_rows,
    uncommit_last,
    write_without_time,
)
from support.served import served
from support.spark_streams import EPOCH_US, Job, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TIMELESS = 900_000
END_US = EPOCH_US + 48 * 3_600_000_000
SLIDING = sliding("10 seconds", "4 seconds")


def region(identity: int) -> str | None:
    """Return the region of a row, as ``with_region`` has it."""
    return None if identity % 5 == 3 else f"r{identity % 5}"


def with_region(raw: DataFrame) -> DataFrame:
    number = F.col("id") % 5
    return raw.withColumn("region", F.when(number != 3, F.concat(F.lit("r"), number)))


def waiting(folder: Path) -> list[int]:
    """Return the first batches of what the controller does not have yet."""
    return sorted(int(path.name) for path in (folder / "_counts").iterdir() if path.name.isdecimal())


def refused() -> str:
    """Return an address where nobody answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.long
def test_the_controller_has_the_counts_of_input_and_output_though_it_was_away_and_drivers_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, batches = tmp_path / "late", random_batches(21, 6)
    late = side(str(folder), parse=with_region, dimension="region")
    job = Job(spark, tmp_path, SLIDING, parse=with_region, late=late, recording=True)
    job.write(batches[:3])
    write_without_time(job, TIMELESS)
    job.run_available("1 second")
    alone = waiting(folder)
    uncommit_last(tmp_path)
    job.write(batches[3:])
    job.controller_url = refused()
    job.run_available("4 seconds")
    away = waiting(folder)
    closing = [Row(CLOSING_ID, 0, END_US), Row(CLOSING_ID + 1, 0, END_US)]
    job.write([[row] for row in closing])
    with (
        Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as controller,
        served(controller.http.app) as url,
    ):
        job.controller_url = url
        job.run_available("2 seconds")
        # Another test of the session may have named it.
        (entry,) = controller.http.get("/v1/jobs").json()["jobs"]
        path = f"/v1/jobs/{quote(entry['job'])}/streams/test/lost"
        answer = controller.http.get(path).json()
        by_partition = controller.http.get(path, params={"dimension": "partition"}).json()

    missing = input_pairs(batches, SLIDING) - main_pairs(job.output.values())
    lost = Counter(region(identity) for identity in {identity for _, identity in missing})
    came = Counter(region(row.id) for rows in [*batches, closing] for row in rows)
    lateness = side_rows(spark, folder).groupBy("region").agg(F.max("late.by_us").alias("us")).collect()
    worst = {row["region"]: row["us"] for row in lateness}
    timeless = region(TIMELESS)
    ages = side_rows(spark, folder).filter("late.reason = 'late'").select("id", "late.by_us").collect()
    by_row: dict[int, int] = {}
    for row in ages:
        by_row[row["id"]] = max(row["by_us"], by_row.get(row["id"], 0))
    in_order = sorted(by_row.values())
    assert len(in_order) == answer["total"]["late"]
    for share, name in ((0.5, "median_late_ms"), (0.99, "p99_late_ms")):
        exact_ms = in_order[math.ceil(share * len(in_order)) - 1] / 1_000
        edge_ms = next(
            (limit for limit in AGE_LIMITS_MS if limit >= exact_ms), answer["total"]["max_late_ms"]
        )
        assert answer["total"][name] == min(edge_ms, answer["total"]["max_late_ms"])
    assert len(lost) > 1
    assert missing.total() > lost.total(), "some rows were lost to more than one window"
    assert 0 < len(alone) < len(away)
    assert set(alone) <= set(away)
    assert waiting(folder) == []
    assert answer["dimension"] == "region"
    assert answer["dimensions"] == ["partition", "region"]
    partitions = {row.id: str(row.partition) for rows in [*batches, closing] for row in rows}
    assert by_partition["total"] == answer["total"]
    assert {each["value"]: each["late"] for each in by_partition["values"] if each["late"]} == Counter(
        partitions[identity] for identity in by_row
    )
    assert {
        each["value"]: (each["rows"], each["late"], each["no_event_time"], each["max_late_ms"])
        for each in answer["values"]
    } == {
        value: (
            rows + (value == timeless),
            lost[value],
            int(value == timeless),
            worst[value] // 1_000 if lost[value] else None,
        )
        for value, rows in came.items()
    }


def test_values_beyond_the_limit_are_the_others_and_a_column_that_is_not_there_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.createDataFrame(
        [("a", 5), ("a", 15), ("a", 4), ("b", 3), ("b", 20), (None, 1), (None, 2), ("c", None), ("d", 12)],
        "name string, s int",
    ).select("name", F.timestamp_seconds("s").alias("ts"))
    batch = DueBatch(batch_id=7, late_watermark_ms=10_000, clock_ms=20_000, start=None, end=None)
    rule = LateRule("ts", tumbling("5 seconds"), None)

    counted, by_time = count_values(with_batch(rows, batch), [batch], rule, ["NAME", "ts"], limit=2)
    assert by_time.total == counted.total
    assert counted == ByValue(
        # The window of 5 s ends at 10 s, which is the watermark.
        {
            "a": LossCounts(rows=3, late=2, max_late_ms=5_000, late_by_age=(1, 0, 1)),
            None: LossCounts(rows=2, late=2, max_late_ms=5_000, late_by_age=(0, 0, 2)),
        },
        LossCounts(rows=4, late=1, no_event_time=1, max_late_ms=5_000, late_by_age=(0, 0, 1)),
    )
    job = Job(
        spark,
        tmp_path,
        SLIDING,
        late=side(str(tmp_path / "late"), parse=lambda raw: raw, dimension="country"),
    )
    with pytest.raises(ValueError, match=r"'country'.*the columns are id, partition, ts"):
        job.start("1 second")
