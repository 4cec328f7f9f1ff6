"""A job whose windows come out in versions, with another bound in each batch; as a program it can be killed.

Its argument is JSON then. ``die`` names the place at which it kills itself and its JVM, from the batch ``die_in`` of
its run on. What it puts out is below ``out``, a file for each try of a batch; the bound of a try that got as far as the
versions is below ``bounds``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Literal, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.operators import TimeWindow, tumbling
from tidemark.spark_jobs import adaptive_watermark, flush, revise
from tidemark.spark_jobs.core.binding import ReportSink
from tidemark.spark_jobs.core.bound import write_whole

from support.bound_server import BoundServer
from support.patience import PATIENCE_S, until
from support.spark_streams import SCHEMA, RecordingSink, driver_of_its_own
from support.versions import WindowVersion

__all__ = [
    "BOUND_S",
    "GRACE_S",
    "OPERATOR",
    "PLACES",
    "bound_s_of",
    "publish",
    "start_revised",
    "versions_of",
]

OPERATOR, BOUND_S, GRACE_S = tumbling("5 seconds"), 2, 18

Place = Literal[
    "before the versions", "before the output", "after the output", "after the batch", "at the end"
]
PLACES: tuple[Place, ...] = get_args(Place)


def versions_of(df: DataFrame) -> list[WindowVersion]:
    """Return the versions of a batch."""
    rows = df.select(
        "partition", F.unix_micros("window.end").alias("end"), "ids", "version", "is_final"
    ).collect()
    return [
        WindowVersion(
            (row["end"], row["partition"]), row["version"], row["is_final"], tuple(sorted(row["ids"]))
        )
        for row in rows
    ]


def start_revised(
    spark: SparkSession,
    folder: Path,
    operator: TimeWindow,
    sink: ReportSink,
    upsert: Callable[[list[WindowVersion], int], None],
    before: Callable[[int], None],
    url: str | None = None,
    *,
    bound_s: int = BOUND_S,
    grace_s: int = GRACE_S,
) -> StreamingQuery:
    """Start the job over the files in a folder, batches back to back until all are read.

    Args:
        spark: the session.
        folder: where files and checkpoint are.
        operator: the windows.
        sink: takes the reports.
        upsert: takes the versions of a batch.
        before: is called before each batch is taken.
        url: of the controller.
        bound_s: the job's own bound, in seconds.
        grace_s: how much longer windows are corrected, in seconds.
    """
    revised = revise("partition", grace=f"{grace_s} seconds")
    write = revised.into(lambda df, number: upsert(versions_of(df), number))

    def take(df: DataFrame, number: int) -> None:
        before(number)
        write(df, number)

    window = F.window("ts", f"{operator.size_us} microseconds", f"{operator.slide_us} microseconds")
    return (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(folder / "in"))
        .transform(
            adaptive_watermark(
                "ts", f"{bound_s} seconds", stream="in", controller_url=url, sink=sink, late=revised
            )
        )
        .groupBy(window, "partition")
        .agg(F.collect_list("id").alias("ids"))
        .writeStream.outputMode("update")
        .foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def bound_s_of(number: int, run: int) -> int:
    """Return the bound of a batch in a run, in seconds: another one when the batch is run again."""
    return (7 * number + 3 * run) % (BOUND_S + GRACE_S)


def publish(server: BoundServer, bound_s: int) -> None:
    """Publish a bound and wait until the job has it."""
    server.publish(bound_s * 1_000)
    until(lambda: server.known == server.etag, "the job to ask for a newer bound", seen=lambda: server.known)


def main() -> None:
    """Run over what there is, or until the place to die at."""
    given = json.loads(sys.argv[1])
    folder, run, place, batches = Path(given["folder"]), given["run"], given["die"], count()
    confs = {"job": "revised", "watch.seconds": "1", "cache.dir": str(folder / "cache")}
    builder = driver_of_its_own().config(map={f"spark.tidemark.{key}": value for key, value in confs.items()})
    spark = builder.getOrCreate()
    here = [False]

    def die_at(reached: Place) -> None:
        if reached == place and here[0]:
            os.killpg(0, signal.SIGKILL)

    with BoundServer("revised", "in") as server:

        def before(number: int) -> None:
            die_at("after the batch")
            here[0] = next(batches) >= given["die_in"]
            die_at("before the versions")
            publish(server, bound_s_of(number, run))
            write_whole(folder / "bounds" / f"{number}-{run}", "")

        def upsert(versions: list[WindowVersion], number: int) -> None:
            die_at("before the output")
            rows = [[*each.window, each.version, each.is_final, *each.ids] for each in versions]
            write_whole(folder / "out" / f"{number}-{run}", json.dumps(rows))
            die_at("after the output")

        query = start_revised(spark, folder, OPERATOR, RecordingSink(), upsert, before, server.url)
        query.awaitTermination()
        if place is not None:
            os.killpg(0, signal.SIGKILL)
        assert flush(PATIENCE_S)


if __name__ == "__main__":
    main()
