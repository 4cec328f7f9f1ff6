"""The one line on the user's side: what it refuses, and what it does to a plan."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import row_level, session, sliding, tumbling
from tidemark.spark_jobs import adaptive_watermark

from support.spark_streams import EPOCH_US, SCHEMA, Job, RecordingSink, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("bound", "operator", "granule", "message"),
    [
        ("soon", tumbling("10 s"), None, "'soon'"),
        ("-5 s", tumbling("10 s"), None, "must be at least 0"),
        ("5 s", tumbling("10 s"), "3 s", "must divide size"),
        ("5 s", sliding("10 s", "4 s"), "5 s", "must divide size"),
        ("5 s", session("10 s"), "1500 us", "whole milliseconds"),
        ("5 s", row_level(), "0", "must be at least 1 ms"),
    ],
)
def test_a_wrong_argument_is_rejected_with_what_is_wrong(
    bound: str, operator: object, granule: str | None, message: str
) -> None:
    """Before Spark starts, and not in the middle of the night."""
    with pytest.raises(ValueError, match=message):
        adaptive_watermark("ts", bound, operator, granule=granule)  # type: ignore[arg-type]


@pytest.mark.spark
@pytest.mark.slow
class TestOnARealSession:
    """What needs a plan to be seen."""

    def test_a_missing_or_wrong_column_is_named(self, spark: SparkSession, tmp_path: Path) -> None:
        """With the columns that there are."""
        source = spark.readStream.schema(SCHEMA).json(str(tmp_path))
        with pytest.raises(ValueError, match=r"withWatermark\('time'.* the columns are id, partition, ts"):
            source.transform(adaptive_watermark("time", "5 s", tumbling("10 s")))
        with pytest.raises(ValueError, match="no column 'regoin'"):
            source.transform(adaptive_watermark("ts", "5 s", tumbling("10 s"), partition="regoin"))
        with pytest.raises(ValueError, match="'id' is a bigint: cast it to timestamp"):
            source.transform(adaptive_watermark("id", "5 s", tumbling("10 s")))

    def test_a_conf_that_changes_sparks_late_rule_is_rejected(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        """With it the filter uses W(n) and every ledger would be wrong."""
        source = spark.readStream.schema(SCHEMA).json(str(tmp_path))
        spark.conf.set("spark.sql.streaming.statefulOperator.allowMultiple", "False")
        try:
            with pytest.raises(ValueError, match="changes Spark's late rule"):
                source.transform(adaptive_watermark("ts", "5 s", tumbling("10 s")))
        finally:
            spark.conf.unset("spark.sql.streaming.statefulOperator.allowMultiple")

    def test_without_a_controller_it_is_with_watermark_and_says_so_in_one_line(
        self, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A job must run the same when Tidemark is not set up."""
        source = spark.readStream.schema(SCHEMA).json(str(tmp_path))
        watched = source.transform(
            adaptive_watermark("ts", "90 s", tumbling("10 s"), stream="clicks", job="shop")
        )
        plan = watched._jdf.queryExecution().toString()
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tidemark:")]

        assert "EventTimeWatermark" in plan
        assert "tidemark:clicks:" in plan
        for part in (
            "job=shop",
            "stream=clicks",
            "bound=90 s",
            "source=job",
            "generation=None",
            "mode=Off",
        ):
            assert part in line

    def test_with_a_controller_it_says_each_stream_s_page_and_the_next_command_once(
        self, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = spark.readStream.schema(SCHEMA).json(str(tmp_path))
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
        for stream in ("clicks", "views"):
            source.transform(
                adaptive_watermark(
                    "ts", "90 s", tumbling("10 s"), stream=stream, job="a shop", controller_url=url
                )
            )
        lines = capsys.readouterr().err.splitlines()

        assert [line for line in lines if not line.startswith("tidemark: job=")] == [
            f"tidemark: page: {url}/#/streams/a%20shop/clicks",
            f"tidemark: next: tidemark doctor 'a shop' --url {url}",
            f"tidemark: page: {url}/#/streams/a%20shop/views",
        ]

    def test_each_run_acknowledges_once_with_what_it_applied(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        """The controller may only count on what really runs."""
        job = Job(spark, tmp_path, tumbling("5 s"), "update")
        batches = random_batches(4, 4)
        job.run("3 seconds", [batches[:2]])
        job.run("9 seconds", [batches[2:]])
        body = [(ack.bound_ms, ack.source, ack.run_id) for ack in job.recorded.acknowledgements]
        runs = list(dict.fromkeys(report.run_id for report in job.recorded.reports))

        assert body == [(3_000, "job", runs[0]), (9_000, "job", runs[1])]

    def test_a_sink_that_fails_does_not_fail_the_query(
        self, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Tidemark may lose a report of its own, never a batch of the user's."""

        class Failing(RecordingSink):
            def report(self, report: object) -> None:  # noqa: ARG002 - the interface's
                raise RuntimeError("out of order")

        job = dataclasses.replace(Job(spark, tmp_path, tumbling("5 s"), "update"), recorded=Failing())
        job.run("3 seconds", [[[Row(1, 0, EPOCH_US)]], [[Row(2, 0, EPOCH_US + 1_000_000)]]])

        assert {identity for output in job.output.values() for _, ids in output for identity in ids} == {1, 2}
        assert "is not reported" in caplog.text
