"""Counts of pages by window that come out early and are corrected, in PostgreSQL or in a compacted topic of Kafka.

    spark-submit --py-files tidemark-pyfiles.zip revised_counts.py \
        --files clicks --window "1 minute" --bound "10 seconds" --grace "1 hour" --checkpoint checkpoint \
        --postgres "host=localhost dbname=shop" --table page_counts

Either way a window and page has one row, or one newest message, whose ``version`` grows until ``is_final``. Versions
that come again after a crash change nothing. PostgreSQL is written to by the driver, which needs psycopg. The topic
(``--bootstrap-servers``, ``--output-topic``) must have been created with ``cleanup.policy=compact``; Spark writes to
it, which is a second, small job in each batch that has versions.
"""

from __future__ import annotations

import argparse
from datetime import UTC

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.spark_jobs import adaptive_watermark, revise, run_and_exit
from tidemark.spark_jobs.late.revise import Upsert


def into_postgres(conninfo: str, table: str) -> Upsert:
    """Return what writes versions into a table of PostgreSQL, which is made if it is not there.

    Args:
        conninfo: how to reach the database, as psycopg takes it.
    """
    import psycopg  # noqa: PLC0415 - the topic does not need it
    from psycopg.sql import SQL, Identifier  # noqa: PLC0415

    name = Identifier(table)
    create = SQL(
        "CREATE TABLE IF NOT EXISTS {} (window_end timestamptz, page text, rows bigint NOT NULL, "
        "version bigint NOT NULL, is_final boolean NOT NULL, PRIMARY KEY (window_end, page))"
    ).format(name)
    write = SQL(
        "INSERT INTO {0} VALUES (%s, %s, %s, %s, %s) ON CONFLICT (window_end, page) DO UPDATE SET "
        "rows = excluded.rows, version = excluded.version, is_final = excluded.is_final "
        "WHERE {0}.version < excluded.version"
    ).format(name)
    with psycopg.connect(conninfo) as connection:
        connection.execute(create)

    def upsert(versions: DataFrame, _: int) -> None:
        rows = versions.select("window.end", "page", "rows", "version", "is_final").collect()
        with psycopg.connect(conninfo) as connection, connection.cursor() as cursor:
            cursor.executemany(write, [(row["end"].astimezone(UTC), *row[1:]) for row in rows])

    return upsert


def into_topic(bootstrap_servers: str, topic: str) -> Upsert:
    """Return what writes versions into a compacted topic: the newest message of a key is the newest version.

    Args:
        bootstrap_servers: brokers, ``host:port``.
    """

    def upsert(versions: DataFrame, _: int) -> None:
        key = F.to_json(F.struct("window.end", "page"))
        value = F.to_json(F.struct("window.end", "page", "rows", "version", "is_final"))
        (
            versions.select(key.alias("key"), value.alias("value"))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap_servers)
            .option("topic", topic)
            .save()
        )

    return upsert


def start(  # noqa: PLR0917 - what a job is made of
    events: DataFrame, window: str, bound: str, grace: str, upsert: Upsert, checkpoint: str, once: bool
) -> StreamingQuery:
    """Start the query over rows with ``event_time`` and ``page``."""
    revised = revise("page", grace=grace)
    counted = (
        events.transform(adaptive_watermark("event_time", bound, late=revised))
        .groupBy(F.window("event_time", window), "page")
        .agg(F.count("*").alias("rows"))
    )
    writer = counted.writeStream.outputMode("update").foreachBatch(revised.into(upsert))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")
    return writer.option("checkpointLocation", checkpoint).start()


def main(arguments: list[str] | None = None) -> None:
    """Run the job and exit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", required=True, help="folder of JSON files with event_time and page")
    parser.add_argument("--window", default="1 minute")
    parser.add_argument("--bound", default="10 seconds", help="the job's own bound")
    parser.add_argument("--grace", default="1 hour", help="how long after the bound a window is corrected")
    parser.add_argument("--postgres", help="how to reach PostgreSQL, such as `host=localhost dbname=shop`")
    parser.add_argument("--table", default="page_counts", help="its table")
    parser.add_argument("--bootstrap-servers", help="Kafka's brokers, where PostgreSQL is not meant")
    parser.add_argument("--output-topic", default="page-counts", help="the compacted topic")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--once", action="store_true", help="end when all files are read")
    chosen = parser.parse_args(arguments)
    if (chosen.postgres is None) == (chosen.bootstrap_servers is None):
        parser.error("give --postgres or --bootstrap-servers")

    spark = SparkSession.builder.getOrCreate()

    def build() -> StreamingQuery:
        schema = "event_time timestamp, page string"
        events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(chosen.files)
        if chosen.postgres is not None:
            upsert = into_postgres(chosen.postgres, chosen.table)
        else:
            upsert = into_topic(chosen.bootstrap_servers, chosen.output_topic)
        return start(
            events, chosen.window, chosen.bound, chosen.grace, upsert, chosen.checkpoint, chosen.once
        )

    run_and_exit(build, exit_on_new_bound=False)


if __name__ == "__main__":
    main()
