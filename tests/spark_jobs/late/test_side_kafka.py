"""Main + side = input on Kafka, with a ``parse`` that keeps a message's place and with one that does not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import functions as F

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import adaptive_watermark, flush, side
from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker
from tidemark.spark_jobs.late import follower
from tidemark.spark_jobs.late.catch_up import CatchUp
from tidemark.spark_jobs.late.follower import Follower, LateSwitch
from tidemark.spark_jobs.late.late_rows import LateRule
from tidemark.spark_jobs.late.origin import Origin
from tidemark.spark_jobs.late.reconcile import reconciled
from tidemark.spark_jobs.late.reread import LateStream
from tidemark.spark_jobs.live.known_partitions import FOLDER as PARTITIONS_OF_LIVE

from support.controller_app import Controller
from support.kafka import Sent, new_topic, send
from support.late_streams import done, late_by_batch, late_in_ledger, side_rows
from support.losing import Losing
from support.patience import PATIENCE_S
from support.served import served
from support.soak import with_soak
from support.spark_streams import EPOCH_US, RecordingSink
from support.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND_US = 1_000_000
FIVE_S_US = 5 * SECOND_US


def placed(raw: DataFrame) -> DataFrame:
    """Keep the message's place: it shows the batch, so many are one read."""
    value = F.from_json(F.col("value").cast("string"), "id long, ts long")
    return raw.select(
        value["id"].alias("id"), F.timestamp_micros(value["ts"]).alias("ts"), "topic", "partition", "offset"
    )


def bare(raw: DataFrame) -> DataFrame:
    """Keep only what was sent."""
    return placed(raw).select("id", "ts")


def _burst(first: int, count: int, now_s: float, seed: int) -> list[Sent]:
    """Return messages of two partitions, the second of which trails."""
    rng = random.Random(seed)
    messages = []
    for number in range(first, first + count):
        partition = rng.randrange(2)
        delay_s = rng.expovariate(1 / 4) + 20 * partition * (rng.random() < 0.3)
        ts = EPOCH_US + round((3_600 + now_s - delay_s) * SECOND_US)
        messages.append(Sent(json.dumps({"id": number, "ts": ts}), partition))
    return messages


def _run(
    spark: SparkSession,
    kafka: KafkaBroker,
    topic: str,
    folder: Path,
    bound: str,
    parse: object,
    sink: RecordingSink,
) -> list[int]:
    """Run over what is there; return the ids in windows that closed."""
    out: list[int] = []
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 60)
        .load()
    )
    rows = raw.transform(parse).transform(  # type: ignore[arg-type]
        adaptive_watermark(
            "ts",
            bound,
            tumbling("5 seconds"),
            stream="in",
            sink=sink,
            late=side(str(folder / "late"), parse=parse),  # type: ignore[arg-type]
        )
    )

    def collect(df: DataFrame, _: int) -> None:
        out.extend(i for row in df.collect() for i in row["ids"])

    query = (
        rows.groupBy(F.window("ts", "5 seconds"))
        .agg(F.collect_list("id").alias("ids"))
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert flush(PATIENCE_S)
    return out


@pytest.mark.long
@pytest.mark.parametrize("parse", with_soak([placed, bare], {bare}))
def test_main_and_side_add_up_to_the_topic_over_bursts_restarts_and_bounds(
    kafka: KafkaBroker, kafka_spark: SparkSession, tmp_path: Path, parse: object
) -> None:
    topic, sink = new_topic(kafka, 2), RecordingSink()
    send(kafka, topic, _burst(0, 150, 0, 1))
    out = _run(kafka_spark, kafka, topic, tmp_path, "2 seconds", parse, sink)
    send(kafka, topic, _burst(150, 200, 40, 2))
    out += _run(kafka_spark, kafka, topic, tmp_path, "8 seconds", parse, sink)
    close = [Sent(json.dumps({"id": -1, "ts": EPOCH_US + 90_000 * SECOND_US}), n) for n in (0, 1)]
    send(kafka, topic, close)
    out += _run(kafka_spark, kafka, topic, tmp_path, "1 second", parse, sink)
    late = [row["id"] for row in side_rows(kafka_spark, tmp_path / "late").select("id").collect()]

    assert len(late) >= 20
    assert Counter(out) + Counter(late) == Counter(range(350))
    assert late_by_batch(kafka_spark, tmp_path / "late") == late_in_ledger(sink.reports)


@pytest.mark.long
def test_messages_that_have_expired_before_they_were_read_again_are_unknown(
    kafka: KafkaBroker, kafka_spark: SparkSession, tmp_path: Path
) -> None:
    topic = new_topic(kafka, 2)
    send(kafka, topic, _burst(0, 150, 0, 1))
    _run(kafka_spark, kafka, topic, tmp_path, "2 seconds", bare, RecordingSink())
    for path in (tmp_path / "late").glob("from_batch=*"):
        path.rename(tmp_path / path.name)
    (tmp_path / "late" / "_done").rename(tmp_path / "gone")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    deleted = admin.delete_records([TopicPartition(topic, 1, 40)])
    assert all(each.result() is not None for each in deleted.values())
    _run(kafka_spark, kafka, topic, tmp_path, "2 seconds", bare, RecordingSink())

    unknown = sorted(path.name for path in (tmp_path / "late" / "_unknown").iterdir() if path.name[0] != ".")
    assert unknown == ["0-1"], "40 messages of one of two partitions are in the first two batches of 60"
    assert "expired" in (tmp_path / "late" / "_unknown" / "0-1").read_text()
    assert set(late_by_batch(kafka_spark, tmp_path / "late")) <= {2, 3}


@pytest.mark.long
def test_the_driver_warns_once_before_messages_expire_that_are_still_to_be_read(
    kafka: KafkaBroker,
    kafka_spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic, folder = new_topic(kafka, 2), tmp_path / "late"
    send(kafka, topic, _burst(0, 240, 0, 1))
    _run(kafka_spark, kafka, topic, tmp_path, "2 seconds", bare, RecordingSink())
    monkeypatch.setattr(follower, "_LOOK_EVERY_S", 0)
    late = LateStream(
        parse=bare,
        origin=Origin("kafka", {"kafka.bootstrap.servers": kafka.bootstrap_servers}),
        rule=LateRule("ts", tumbling("5 seconds"), None),
        batches_per_read=1,
    )

    def warnings() -> list[str]:
        """Follow again from the second batch on, and return what is warned of."""
        caplog.clear()
        (folder / "_done" / str(done(folder))).rename(folder / "_done" / "0")
        catch_up = CatchUp(kafka_spark, str(tmp_path / "checkpoint"), str(folder), late)
        following = Follower("in", catch_up, 100, switch=LateSwitch(by_call=True))
        following.end()
        assert following.join(PATIENCE_S)
        return [record.getMessage() for record in caplog.records if "soon" in record.getMessage()]

    assert warnings() == [], "nothing expires yet"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    deleted = admin.delete_records([TopicPartition(topic, 1, 25)])
    assert all(each.result() is not None for each in deleted.values())
    (warning,) = warnings()
    assert f"{topic}-1 from offset" in warning
    assert "deleted those before 25; raise the topic's retention.ms" in warning
    assert not list((folder / "_unknown").glob("[0-9]*")), "all of them could still be read"


@pytest.mark.soak
@pytest.mark.timeout(1_800)  # eleven drivers, one after the other
@pytest.mark.parametrize("ceiling", [None, "30 seconds"], ids=["Off", "Live"])
def test_ten_kills_lose_and_double_no_row(
    kafka: KafkaBroker, kafka_spark: SparkSession, tmp_path: Path, ceiling: str | None
) -> None:
    """Six fall between the offset log and the commit, four after the last commit, whatever the side is at.

    The reports of those four runs are still in the driver, and die with it.
    """
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as controller:
        controller.clock.now_us = time.time_ns() // 1_000
        losing = Losing(controller.http.app)
        with served(losing) as url:
            times_us = _killed_ten_times(kafka, tmp_path, ceiling, losing, url)
        missing, anew, ledger = _ledger_of(controller)
    windows: dict[int, list[int]] = {}
    for path in (tmp_path / "out").glob("*.json"):
        emitted: dict[int, list[int]] = defaultdict(list)
        for key, identity in json.loads(path.read_text()):
            emitted[key].append(identity)
        assert not windows.keys() & emitted.keys(), "a window is emitted once"
        windows |= emitted
    kept = side_rows(kafka_spark, tmp_path / "late")
    late = Counter(row["id"] for row in kept.select("id").collect())
    counted = late_by_batch(kafka_spark, tmp_path / "late")

    out = Counter(identity for ids in windows.values() for identity in ids)
    assert out + late == Counter(times_us.keys())
    assert late.total() >= 50
    assert missing == []
    assert anew >= 4
    assert sorted(ledger) == list(range(len(ledger))), "from the first batch to the last"
    assert {batch: counted.get(batch, 0) for batch in ledger} == ledger
    assert (tmp_path / "checkpoint" / PARTITIONS_OF_LIVE).exists() == (ceiling is not None), "it was steered"
    assert _reconciled(kafka_spark, windows, kept) == _sums(
        ((time_us // FIVE_S_US + 1) * FIVE_S_US, identity) for identity, time_us in times_us.items()
    )
    print(
        f"{len(times_us)} rows in = {out.total()} in windows + {late.total()} late; {len(ledger)} batches in the "
        f"ledger, {anew} of them read again"
    )


Sums = dict[int, tuple[int, int]]
"""By the end of a window in microseconds: how many rows, and the sum of their ids."""


def _sums(rows: Iterable[tuple[int, int]]) -> Sums:
    """Return the sums of rows given as window and id."""
    found: Sums = {}
    for end_us, identity in rows:
        count, total = found.get(end_us, (0, 0))
        found[end_us] = count + 1, total + identity
    return found


def _reconciled(spark: SparkSession, windows: dict[int, list[int]], late: DataFrame) -> Sums:
    """Return the windows that came out, with those that ``tidemark reconcile`` makes written over them."""
    finished = _sums((end_us, identity) for end_us, ids in windows.items() for identity in ids)
    rows = [(end_us, *sums) for end_us, sums in finished.items()]
    table = spark.createDataFrame(rows, "end_us long, rows long, ids long")
    changed = reconciled(table, late, tumbling("5 seconds"), _counts, {"rows": "sum", "ids": "sum"})
    return finished | {row["end_us"]: (row["rows"], row["ids"]) for row in changed.collect()}


def _counts(rows: DataFrame) -> DataFrame:
    sums = rows.groupBy("window").agg(F.count("*").alias("rows"), F.sum("id").alias("ids"))
    return sums.select(F.unix_micros("window.end").alias("end_us"), "rows", "ids")


def _killed_ten_times(
    kafka: KafkaBroker, folder: Path, ceiling: str | None, losing: Losing, controller: str
) -> dict[int, int]:
    """Run a job eleven times over a topic that grows, and kill it ten times.

    Returns:
        The event times of all rows in microseconds, by their ids.
    """
    topic, times_us = new_topic(kafka, 2), dict[int, int]()
    for number in range(11):
        burst = _burst(len(times_us), 130, 12 * number, number)
        send(kafka, topic, burst)
        times_us |= {row["id"]: row["ts"] for row in (json.loads(message.value or "") for message in burst)}
        if number == 10:
            close = [Sent(json.dumps({"id": -1, "ts": EPOCH_US + 90_000 * SECOND_US}), n) for n in (0, 1)]
            send(kafka, topic, close)
        given = {
            "folder": str(folder),
            "servers": kafka.bootstrap_servers,
            "topic": topic,
            "bound": f"{1 + number * 3 % 7} seconds",
            "ceiling": ceiling,
            "controller": controller,
            "die_in": None if number == 10 else (2 + number % 2 if number % 5 < 3 else 99),
        }
        losing.away = given["die_in"] == 99
        ran = subprocess.run(
            [sys.executable, "-m", "support.late_kafka_job", json.dumps(given)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
            start_new_session=True,
            capture_output=True,
            timeout=5 * PATIENCE_S,
            check=False,
        )
        assert ran.returncode == (0 if number == 10 else -signal.SIGKILL), ran.stderr.decode()[-3_000:]
        if number < 10 and given["die_in"] != 99:
            logged = max(int(p.name) for p in (folder / "checkpoint" / "offsets").glob("[0-9]*"))
            assert not (folder / "checkpoint" / "commits" / str(logged)).exists()
    return times_us


def _ledger_of(controller: Controller) -> tuple[list[Any], int, dict[int, int]]:
    """Return what the controller has of its one stream.

    The batches that it lacks, how many were reported anew, and how many rows of each batch were late.
    """
    (entry,) = controller.http.get("/v1/jobs").json()["jobs"]
    path = f"/v1/jobs/{quote(entry['job'])}/streams/in"
    (query,) = controller.http.get(path).json()["coverage"]
    reports = controller.http.get(f"{path}/reports", params={"limit": 1_000}).json()["reports"]
    assert all(each["late_min"] == each["late_max"] for each in reports)
    sent = controller.http.get(f"{path}/reports/bodies", params={"limit": 1_000}).json()["reports"]
    return (
        query["missing"],
        sum(each["reread"] for each in sent),
        {each["batch_id"]: each["late_min"] for each in reports},
    )
