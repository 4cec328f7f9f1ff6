"""The example with versions from end to end: into PostgreSQL and into a compacted topic, against the truth."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import functions as F

from tidemark.spark_jobs.demo.examples.revised_counts import into_postgres, main
from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker

from support.empty_store import bare_postgres
from support.late_streams import uncommit_last
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, iso

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES_S = ((0, 5, 12), (31, 3, 14), (47, 8, 40), (95, 33, 8), (101, 45))
"""Event times of each batch, in seconds; a bound of 10 s is too small for some, a grace of 50 s is not."""

Window = tuple[int, str]


def page_of(second: int) -> str:
    return f"/{second % 2}"


def truth() -> Counter[Window]:
    """Return the rows of each window that the bound has reached."""
    rows = [second for batch in BATCHES_S for second in batch]
    counted = Counter((EPOCH_US + (second // 20 + 1) * 20_000_000, page_of(second)) for second in rows)
    return Counter({window: n for window, n in counted.items() if window[0] <= EPOCH_US + 91_000_000})


def run(folder: Path, *sink: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for number, batch in enumerate(BATCHES_S):
        path = folder / "in" / f"{number}.json"
        rows = [{"event_time": iso(EPOCH_US + at * 1_000_000), "page": page_of(at)} for at in batch]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_000_000_000 + number,) * 2)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                *("--files", str(folder / "in"), "--window", "20 seconds", "--grace", "50 seconds", "--once"),
                *("--checkpoint", str(folder / "checkpoint"), *sink),
            ]
        )
    assert ended.value.code == 0


def test_postgresql_has_the_newest_version_of_each_window_and_an_older_one_changes_nothing(
    spark: SparkSession, postgres_url: str, tmp_path: Path
) -> None:
    conninfo = bare_postgres(postgres_url).replace("+psycopg", "")
    run(tmp_path, "--postgres", conninfo)
    columns = "extract(epoch from window_end)::bigint * 1000000, page, rows, version, is_final"
    with psycopg.connect(conninfo) as connection:
        found = connection.execute(f"SELECT {columns} FROM page_counts").fetchall()

    assert {(end, page): rows for end, page, rows, *_ in found} == truth()
    assert {version for *_, version, _ in found} >= {1, 2, 3}
    assert {(end, page) for end, page, *_, final in found if final} == {
        window for window in truth() if window[0] <= EPOCH_US + 41_000_000
    }

    end, page, rows, version, _ = max(found, key=lambda row: int(row[3]))
    older = spark.sql(
        f"select struct(timestamp_micros({end}) as end) as window, '{page}' as page, 0L as rows, "
        f"{version - 1}L as version, false as is_final"
    )
    into_postgres(conninfo, "page_counts")(older, 0)
    with psycopg.connect(conninfo) as connection:
        assert connection.execute("SELECT min(rows) FROM page_counts").fetchone() == (min(truth().values()),)
    assert rows > 0


def test_the_newest_message_of_a_key_is_the_newest_version_also_after_a_batch_was_run_again(
    kafka: KafkaBroker, kafka_spark: SparkSession, tmp_path: Path
) -> None:
    topic, admin = "page-counts", AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    compacted = NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([compacted])[topic].result(PATIENCE_S)
    sink = ("--bootstrap-servers", kafka.bootstrap_servers, "--output-topic", topic)
    run(tmp_path, *sink)
    uncommit_last(tmp_path)
    run(tmp_path, *sink)
    messages = (
        kafka_spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", topic)
        .load()
        .orderBy("offset")
        .select(F.col("key").cast("string"), F.col("value").cast("string"))
        .collect()
    )
    by_key: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
    for message in messages:
        by_key[message["key"]].append(json.loads(message["value"]))
    newest = [versions[-1] for versions in by_key.values()]

    assert {(_us(str(one["end"])), one["page"]): one["rows"] for one in newest} == truth()
    for versions in by_key.values():
        numbers = [one["version"] for one in versions]
        assert numbers == sorted(numbers, key=lambda number: int(str(number)))
    assert len(messages) > len({(message["key"], message["value"]) for message in messages}), "one came twice"


def _us(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1e6)
