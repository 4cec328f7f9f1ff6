"""``tidemark lint`` on files as people write them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from support.command_line import exit_code

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

INPUTS = """
    import sys
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.builder.getOrCreate()

    def side(name, delay="10 seconds"):
        df = spark.readStream.format("rate").load().selectExpr(f"value as {name}k", f"timestamp as {name}ts")
        return df.withWatermark(f"{name}ts", delay) if delay else df

    NEAR = F.expr("lk = rk and rts >= lts - interval 4 seconds and rts <= lts + interval 6 seconds")
    good = side("l").join(side("r"), NEAR, "leftOuter")
    bad = side("l", None).join(side("r"), NEAR, "leftOuter")
"""


def job(folder: Path, text: str, inputs: str = INPUTS) -> str:
    """Write a job and return its path."""
    path = folder / "job.py"
    path.write_text(dedent(inputs) + dedent(text))
    return str(path)


def lint(*given: str) -> int:
    """Run the command and return its exit code."""
    return exit_code("lint", given=given)


def found(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    queries: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["queries"]
    return queries


def test_a_job_is_run_up_to_where_it_waits_and_no_query_of_it_starts(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        print("the job prints", sys.argv[1:])
        query = good.writeStream.queryName("near").format("noop").start()
        side("x", None).writeStream.format("noop").outputMode("update").start()
        query.awaitTermination()
        raise AssertionError("behind the wait")
    """
    assert lint(job(tmp_path, text), "--json", "--", "--date", "today") == 0
    captured = capsys.readouterr()
    near, other = json.loads(captured.out)["queries"]

    assert spark.streams.active == []
    assert "the job prints ['--date', 'today']" in captured.err
    assert (near["name"], near["output_mode"], near["joins"]["starts"]) == ("near", "append", True)
    assert near["joins"]["joins"][0]["left"]["retention_ms"] == 6_001
    assert [finding["code"] for finding in near["findings"]] == ["silent_side"]
    assert (other["output_mode"], other["joins"], other["findings"]) == ("update", None, [])


@pytest.mark.parametrize(
    "wait",
    [
        "query.awaitTermination()",
        "spark.streams.awaitAnyTermination()",
        "while query.isActive: pass",
        "run_adaptive(lambda: good.writeStream.format('noop').start())",
        "sys.exit(0)",
    ],
)
def test_every_way_to_wait_ends_the_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], wait: str
) -> None:
    text = f"""
        from tidemark.spark_jobs import run_adaptive
        query = good.writeStream.format("noop").start()
        {wait}
        raise AssertionError("behind the wait")
    """
    assert lint(job(tmp_path, text), "--json") == 0
    assert found(capsys)[0]["joins"]["starts"]


def test_an_error_is_told_with_what_to_write_and_exit_code_1(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        from pathlib import Path
        bad.writeStream.toTable("never_made")
    """
    assert lint(job(tmp_path, text)) == 1
    shown = " ".join(capsys.readouterr().out.split())

    assert "for ever" in shown
    assert "error" in shown
    assert not spark.catalog.tableExists("never_made")


def test_a_chain_that_a_narrower_bound_may_end_is_noted_and_in_live_an_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = """
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as F
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor
        from tidemark.spark_jobs import adaptive_watermark

        class Nothing(StatefulProcessor):
            def init(self, handle): ...
            def handleInputRows(self, key, rows, timerValues): return iter(())

        def chain(**live):
            df = SparkSession.builder.getOrCreate().readStream.format("rate").load()
            kept = df.transform(adaptive_watermark("timestamp", "10 seconds", stream="in", **live)).groupBy("value")
            own = kept.transformWithStateInPandas(
                Nothing(), "ts timestamp", "append", "EventTime", eventTimeColumnName="ts"
            )
            return own.groupBy(F.window("ts", "5 seconds")).count()

        def build():
            return [chain(), chain(mode="Live", ceiling="1 minute")]
    """
    assert lint(job(tmp_path, "", inputs) + ":build", "--json") == 1
    queries = found(capsys)
    findings = [finding for query in queries for finding in query["findings"]]

    assert [(each["severity"], each["code"]) for each in findings] == [
        ("note", "own_event_time"),
        ("error", "own_event_time"),
    ]
    assert "stream in is to run in Live" in findings[1]["text"]


def test_what_another_bound_would_decide_is_shown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        def build():
            return good.groupBy(F.window("lts", "5 seconds")).count()
    """
    path = job(tmp_path, text) + ":build"
    assert lint(path, "--bound", "30 s") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "windows one is closed 36.001 s after its end: bound 30 s + 6.001 s of join 1" in shown
    assert lint(path, "--json") == 0
    assert [each["after_ms"] for each in found(capsys)[0]["operators"]] == [16_001]
    assert lint(path, "--bound", "soon") == 2


def test_a_query_that_ends_by_itself_is_told_what_stays_open_until_a_closing_step_ends_that(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        from tidemark.spark_jobs import adaptive_watermark

        def count(df):
            return df.groupBy(F.window("lts", "5 seconds")).count().writeStream.format("noop")

        def closes(how):
            return side("l", None).transform(adaptive_watermark("lts", "10 seconds", stream="l", close_at_end=how))

        count(side("l")).trigger(availableNow=True).start()
        count(side("l")).trigger(once=True).start()
        count(side("l")).outputMode("update").trigger(availableNow=True).start()
        count(closes(True)).trigger(availableNow=True).start()
        count(closes("1 hour")).trigger(availableNow=True).start()
        count(side("l")).trigger(processingTime="1 second").start()
        good.writeStream.format("noop").trigger(availableNow=True).start()
    """
    assert lint(job(tmp_path, text), "--json") == 0
    said = [{each["code"]: each for each in query["findings"]} for query in found(capsys)]
    open_ = [("last_windows_open" in each) for each in said]
    assert open_ == [True, True, False, True, False, False, True], (
        "True stops at the bound, which one input has anyway"
    )
    one, once, *_, joined = (each["last_windows_open"] for each in said if "last_windows_open" in each)
    assert one["severity"] == "note"
    assert "availableNow=True" in once["instead"]
    assert "each input, so a run that has rows of some inputs only does not move it" in joined["text"]


def test_a_watermark_without_effect_and_state_without_end_are_said_before_the_query_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        l, update = side("l"), lambda df: df.writeStream.format("noop").outputMode("update").start()
        window = F.window("t", "1 minute")
        update(l.agg(F.count("*")))
        update(l.withColumn("t", F.expr("lts - interval 1 hour")).groupBy(window).count())
        update(l.withColumn("t", F.date_format("lts", "yyyy-MM-dd").cast("timestamp")).groupBy(window).count())
        l.writeStream.foreachBatch(lambda batch, _: batch.dropDuplicates(["lk"]).collect()).start()
        l.dropDuplicates(["lk"]).writeStream.format("noop").start()
        l.groupBy(F.window("lts", "1 minute")).count().writeStream.format("noop").outputMode("complete").start()
        l.withColumn("t", F.expr("lts - interval 1 hour")).groupBy(window).count().writeStream.format("noop").start()
        l.dropDuplicatesWithinWatermark(["lk"]).writeStream.format("noop").start()
        update(l.groupBy(F.window("lts", "1 minute")).count())
    """
    assert lint(job(tmp_path, text), "--json") == 1
    said = [[each["code"] for each in query["findings"]] for query in found(capsys)]
    assert said == [
        *[["watermark_without_effect"]] * 4,
        *[["never_forgotten"]] * 2,
        ["refused", "watermark_without_effect"],
        [],
        [],
    ]


def test_a_function_is_called_and_the_rest_of_its_file_is_no_main_program(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        def build():
            return [good, bad]

        if __name__ == "__main__":
            raise AssertionError("run as a main program")
    """
    assert lint(job(tmp_path, text) + ":build", "--json") == 1
    assert [query["joins"]["starts"] for query in found(capsys)] == [True, True]


@pytest.mark.parametrize(
    ("text", "suffix", "why"),
    [
        ("", "", "starts no streaming query"),
        ("raise OSError('no input')", "", "no input"),
        ("sys.exit(3)", "", "ends with exit code 3"),
        ("", ":absent", "there is no function absent"),
        ("rows = lambda: spark.range(3)", ":rows", "must return a streaming DataFrame"),
    ],
)
def test_a_job_that_cannot_be_checked_has_exit_code_2_and_the_reason(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, suffix: str, why: str
) -> None:
    assert lint(job(tmp_path, text) + suffix) == 2
    captured = capsys.readouterr()
    assert why in captured.err
    assert captured.out == ""


def test_a_missing_file_has_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("absent.py") == 2
    assert "there is no file absent.py" in capsys.readouterr().err


def test_the_command_line_runs_the_check_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = job(tmp_path, "bad.writeStream.format(sys.argv[1]).start().awaitTermination()")
    command = [sys.executable, "-m", "tidemark.controller", "lint", path, "--json", "--", "noop"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    codes = [finding["code"] for finding in json.loads(done.stdout)["queries"][0]["findings"]]
    assert codes == ["outer_rows_never_come", "never_evicted"]
