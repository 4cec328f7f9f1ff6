"""A fleet's conf is a wish: whatever a key says, a job that nobody edited is watched, and what does not fit is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tidemark.spark_jobs.attach.pyspark_run import watched_queries
from tidemark.spark_jobs.attach.watermark import adapted
from tidemark.spark_jobs.core.connections import flush
from tidemark.spark_jobs.core.settings import SETTINGS
from tidemark.spark_jobs.spark.query_plan import TAP_PREFIX

from support.patience import PATIENCE_S
from support.report_server import ReportServer
from support.spark_streams import SCHEMA, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PREFIX = "spark.tidemark."


@dataclass(frozen=True)
class Values:
    """What a key may say of a query with a watermark of 20 minutes and windows of 10 seconds."""

    fits: str
    """A value that may be used."""
    wrong: tuple[str, ...]
    """Values that may be used elsewhere, but not of this stream or this machine, and such as are none."""


NONSENSE = "what?"
LONG = "9" * 400
KEYS: dict[str, Values] = {
    "job": Values("shop", ("a/b", " ", "x" * 300)),
    "stream": Values("", ("clicks",)),
    "name": Values("", ("clicks",)),
    "controller.url": Values("http://127.0.0.1:9", ("tidemark:8642", NONSENSE)),
    "token.file": Values("/nowhere/token", ()),
    "cache.dir": Values("/tmp/tidemark-bounds", ()),
    "restart.marker": Values("/nowhere/marker", ()),
    "python": Values("python3", ()),
    "start.timeout": Values("2 hours", ()),
    "timeout.ms": Values("3000", ("0", "-1", LONG, NONSENSE)),
    "queue.reports": Values("10", ("0", LONG, NONSENSE)),
    "watch.seconds": Values("30", ("0", LONG, NONSENSE)),
    "pin": Values("off", (NONSENSE,)),
    "tap": Values("observe", (NONSENSE,)),
    "close.at.end": Values("1 hour", ("-1 hour", NONSENSE)),
    "own.event.time.confirmed": Values("true", (NONSENSE,)),
    "enabled": Values("true", (NONSENSE,)),
    "mode": Values("Live", ("Restart", NONSENSE)),
    "bound": Values("30 minutes", ("-5 minutes", NONSENSE, "'")),
    "ceiling": Values("2 hours", ("10 min", "INTERVAL '10' MINUTES", NONSENSE, "'")),
    "idle.timeout": Values("1 minute", ("-1s", NONSENSE)),
    "partition": Values("partition", ("nobody_has_it", " ")),
    "arrival.time": Values("timestamp", ("nobody_has_it", " ")),
    "max.keys": Values("1000", ("0", LONG, NONSENSE)),
    "granule": Values("5 s", ("7s", "0s", "1 us", NONSENSE)),
    "late.folder": Values("", ("/tmp/late",)),
    "late.dimension": Values("", ("region",)),
    "future.rows": Values("clamp", ("aside", NONSENSE)),
    "future.allowance": Values("1 minute", ("-1 minute", NONSENSE)),
}
CASES = [(key, value) for key, values in KEYS.items() for value in values.wrong]


def test_the_table_has_every_key() -> None:
    assert {f"{PREFIX}{key}" for key in KEYS} == {setting.key for setting in SETTINGS.values()}


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Return a plain query; rows that were read again would not be the same."""
    folder = tmp_path_factory.mktemp("wishes") / "clicks"
    write_batch(folder, 0, [Row(number, 0, number * 1_000_000) for number in range(40)])
    rows = spark.readStream.schema(SCHEMA).json(str(folder)).withColumn("x", F.rand())
    return rows.withWatermark("ts", "20 minutes").groupBy(F.window("ts", "10 seconds")).count()


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Return what sets a key, by its name within ours."""
    before: dict[str, str | None] = {}

    def say(key: str, value: str) -> None:
        before.setdefault(PREFIX + key, spark.conf.get(PREFIX + key, None))
        spark.conf.set(PREFIX + key, value)

    yield say
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


class NamesOfAQuery(list[str]):
    """As a list of Java."""

    add = list.append


def watched(spark: SparkSession, plain: DataFrame) -> bool:
    """Return whether a query that starts gets a tap."""
    analysed = plain._jdf.queryExecution().analyzed()
    query = SimpleNamespace(name=lambda: "q", deleteCheckpointOnStop=lambda: True, child=lambda: analysed)
    asked = [analysed]
    while asked[-1].nodeName() != "EventTimeWatermark":
        asked.append(asked[-1].children().head())
    context = {f"{PREFIX}start.timeout": "1 hour", f"{PREFIX}cache.dir": spark.conf.get(f"{PREFIX}cache.dir")}

    def read(key: str, default: str | None) -> str | None:
        return spark.conf.get(key, None) or context.get(key) or default

    plan = adapted(spark, read, query, asked[-1], NamesOfAQuery())
    return plan is not None and TAP_PREFIX in plan.toString()


@pytest.mark.parametrize(("key", "value"), CASES)
def test_what_does_not_fit_a_stream_is_left_out_with_one_line_and_the_stream_is_watched(
    spark: SparkSession,
    plain: DataFrame,
    conf: Callable[[str, str], None],
    caplog: pytest.LogCaptureFixture,
    key: str,
    value: str,
) -> None:
    conf(key, value)
    assert watched(spark, plain)
    (line,) = (each for each in caplog.messages if "left out" in each)
    assert line.startswith(f"stream q.clicks.ts: {PREFIX}{key} is left out")
    assert "\n" not in line
    assert not re.search(r"write \w+=", line), "words for a call"


@pytest.mark.parametrize("key", [key for key, values in KEYS.items() if values.fits])
def test_what_fits_is_taken_without_a_word(
    spark: SparkSession,
    plain: DataFrame,
    conf: Callable[[str, str], None],
    caplog: pytest.LogCaptureFixture,
    key: str,
) -> None:
    conf(key, KEYS[key].fits)
    assert watched(spark, plain)
    assert not [each for each in caplog.messages if "left out" in each]


def test_with_all_that_is_wrong_at_once_a_query_runs_and_reports_and_says_so(
    spark: SparkSession, plain: DataFrame, conf: Callable[[str, str], None], tmp_path: Path
) -> None:
    wrong = {
        key: values.wrong[-1] for key, values in KEYS.items() if values.wrong and key != "controller.url"
    }
    for key, value in {**wrong, "token": "s3cr3t"}.items():
        conf(key, value)
    with ReportServer() as controller, watched_queries():
        conf("controller.url", controller.url)
        writer = plain.writeStream.queryName("q").format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
        assert flush(PATIENCE_S)
    (((job, stream), reports),) = controller.reports.items()
    assert (job, stream) == ("tidemark-tests", "q.clicks.ts")
    assert sum(each.rows for each in reports) == 40
    said = controller.acknowledgements[job, stream][-1]["conf_left_out"]
    assert "s3cr3t" not in said
    assert said.count("is left out") >= 8, "as many as its length allows"
