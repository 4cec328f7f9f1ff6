"""Spark's own metrics of a query, with what became of its rows among them, against the reports and the sink."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext

from tidemark.models.base.operators import row_level, tumbling
from tidemark.models.evidence.ledger import effective_bound_ms
from tidemark.spark_jobs import counts_of
from tidemark.spark_jobs.core import driver_metrics
from tidemark.spark_jobs.core.driver_metrics import GAUGES, gauge_name
from tidemark.spark_jobs.spark.jvm import PrivateName

from support.oracles import Ledger
from support.patience import until
from support.spark_streams import Job, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SWITCH = "spark.sql.streaming.metricsEnabled"


@pytest.fixture
def switched_on(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session, with Spark's metrics of queries."""
    spark.conf.set(SWITCH, "true")
    yield spark
    spark.conf.unset(SWITCH)


def _scraped(spark: SparkSession) -> dict[str, float]:
    """Return what Spark's Prometheus endpoint shows of ours, by the end of the name.

    The session has no page to ask it by HTTP, so its text is asked for.
    """
    jvm: Any = SparkContext._jvm
    registry = spark._jsparkSession.sparkContext()
    # By fields, since not every version has all classes that its methods name.
    for place, name in (
        ("SparkContext", "_env"),
        ("SparkEnv", "metricsSystem"),
        ("metrics.MetricsSystem", "registry"),
    ):
        named = jvm.java.lang.Class.forName(f"org.apache.spark.{place}").getDeclaredField(name)
        named.setAccessible(True)
        registry = named.get(registry)
    settings = jvm.java.util.Properties()
    settings.setProperty("path", "/metrics/prometheus")
    servlet = jvm.org.apache.spark.metrics.sink.PrometheusServlet(settings, registry)
    found = {}
    for line in str(servlet.getMetricsSnapshot(None)).splitlines():
        name, value = line.rsplit(" ", 1)
        if "_tidemark_" in name and "_Value" in name:
            shown = re.fullmatch(
                r'metrics_\w+_driver_spark_streaming_[0-9a-f_]{36}_(tidemark_\w+)_Value\{type="gauges"\}',
                name,
            )
            assert shown is not None, name
            found[shown[1]] = float(value)
    return found


@contextmanager
def _ran(job: Job, bound: str, batches: list[list[Row]]) -> Iterator[StreamingQuery]:
    """Run batches, and one without rows after them, and give the query once all are reported."""
    query = job.start(bound)
    try:
        job.write(batches)
        query.processAllAvailable()
        until(lambda: job.recorded.reports[-1:] and _newest(job) == _last_batch(query), "the reports")
        yield query
    finally:
        query.stop()


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else progress["batchId"]


def _newest(job: Job) -> int:
    return job.recorded.reports[-1].batch_id


def _gauges(stream: str = "test") -> dict[str, str]:
    """Return the names of a stream's gauges as Prometheus has them, by field."""
    return {name: gauge_name(stream, name).replace("-", "_") for name in GAUGES}


@pytest.mark.versions
def test_spark_s_metrics_have_the_late_rows_of_a_query_until_it_ends_and_begin_anew_with_the_next_run(
    switched_on: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(switched_on, tmp_path, tumbling("5 seconds"), "update")
    batches = random_batches(7, 8)
    names = _gauges()
    for half in (batches[:4], batches[4:]):
        job.recorded.reports.clear()
        job.output.clear()
        with _ran(job, "1 second", half) as query:
            until(lambda: counts_of(query)["test"].batch_id == _newest(job), "the counts")
            shown, read = _scraped(switched_on), counts_of(query)
        ledger = Ledger()
        for report in job.recorded.reports:
            ledger.add(report)
        total, last = ledger.completeness(), job.recorded.reports[-1]
        kept = {identity for output in job.output.values() for _, ids in output for identity in ids}
        dropped = sum(row.id not in kept for rows in half for row in rows)

        assert shown.keys() == set(names.values())
        assert shown == {names[name]: getattr(read["test"], name) for name in GAUGES}
        assert total.late_min == dropped > 0
        assert {
            name: shown[names[name]] for name in ("rows", "rows_judged", "rows_late", "rows_unknown")
        } == {
            "rows": sum(map(len, half)),
            "rows_judged": total.rows,
            "rows_late": dropped,
            "rows_unknown": 0,
        }
        assert shown[names["watermark_ms"]] == last.watermark_ms > 0
        assert shown[names["watermark_lag_ms"]] == (
            last.started_us // 1_000 + last.duration_ms - last.watermark_ms
        )
        assert shown[names["bound_ms"]] == 1_000
        assert shown[names["bound_effective_ms"]] == effective_bound_ms(
            last.late_base_ms, last.late_watermark_ms or 0
        )
        assert _scraped(switched_on) == {}
        until(lambda: not counts_of(query), "the end of the run, as the listener sees it")
    assert _said(caplog) == []


def test_what_is_not_known_is_unknown_and_not_zero(switched_on: SparkSession, tmp_path: Path) -> None:
    """Before the first batch there is no watermark; with coarse granules it may be unknown whether a row was late."""
    job = Job(switched_on, tmp_path, row_level(), granule="2 seconds")
    batches, names = random_batches(5, 6), _gauges()
    query = job.start("1 second")
    before = _scraped(switched_on)
    query.stop()
    with _ran(job, "1 second", batches) as query:
        until(lambda: counts_of(query)["test"].batch_id == _newest(job), "the counts")
        counts = counts_of(query)["test"]
    kept = {identity for output in job.output.values() for _, ids in output for identity in ids}
    late = sum(row.id not in kept for rows in batches for row in rows)

    assert [before[names[name]] for name in ("rows", "rows_late", "bound_ms")] == [0, 0, 1_000]
    assert all(
        math.isnan(before[names[name]]) for name in ("watermark_ms", "watermark_lag_ms", "bound_effective_ms")
    )
    assert counts.rows_late < late <= counts.rows_late + counts.rows_unknown
    assert counts.rows_judged + counts.rows_unknown == counts.rows == sum(map(len, batches))


def test_without_spark_s_own_switch_nothing_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    with _ran(Job(spark, tmp_path, tumbling("5 seconds")), "1 second", random_batches(1, 1)) as query:
        assert _scraped(spark) == {}
        assert counts_of(query) == {}


@pytest.mark.parametrize(
    ("name", "instead", "why"),
    [
        (
            "GAUGE",
            PrivateName(("com.codahale.metrics.NoGauge",), (), "gauges"),
            "this Spark has no com.codahale",
        ),
        ("judge", None, "'NoneType' object is not callable"),
        ("gauge_name", lambda *_: "latency", "A metric named latency already exists"),
    ],
    ids=["class", "counts", "name"],
)
def test_where_it_fails_batches_are_reported_all_the_same_and_the_log_says_so_once(
    switched_on: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    instead: object,
    why: str,
) -> None:
    monkeypatch.setattr(driver_metrics, name, instead)
    batches = random_batches(2, 2)
    job = Job(switched_on, tmp_path, tumbling("5 seconds"))
    with caplog.at_level(logging.WARNING), _ran(job, "1 second", batches):
        assert sum(report.counted_rows for report in job.recorded.reports) == sum(map(len, batches))
        until(lambda: _said(caplog), "the log")
        assert _scraped(switched_on) == {}

    assert len(_said(caplog)) == 1
    assert why in _said(caplog)[0]
    assert "\n" not in _said(caplog)[0]


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "running without" in record.getMessage()]


def test_a_stream_s_name_is_one_part_of_the_names_of_its_gauges() -> None:
    """Letters, digits and strokes alone: a dot would part it in Graphite, and Prometheus takes nothing else."""
    assert gauge_name("a b.c/\u00fc", "rows_late") == "tidemark-a_b_c__-rowsLate"
