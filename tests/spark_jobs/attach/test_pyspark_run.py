"""``tidemark run``: plain PySpark programs, with nothing of Tidemark in them."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidemark.models.protocol.messages import LOSES_NONE
from tidemark.spark_jobs.attach import pyspark_run
from tidemark.spark_jobs.attach.pyspark_run import run
from tidemark.spark_jobs.core.connections import flush

from support.bound_server import BoundServer
from support.command_line import exit_code
from support.controller_app import Controller
from support.patience import PATIENCE_S
from support.report_server import ReportServer
from support.served import served
from support.spark_streams import SCHEMA, Row, random_batches, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BEGIN = f"""
import sys
from pyspark.sql import SparkSession, functions as F

source, out = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()

def rows():
    return spark.readStream.schema({SCHEMA!r}).option("maxFilesPerTrigger", 1).json(source)

def write(df, name):
    writer = df.writeStream.format("json").trigger(availableNow=True).queryName(name)
    writer = writer.options(checkpointLocation=f"{{out}}/{{name}}_checkpoint")
    query = writer.start(f"{{out}}/{{name}}")
    query.awaitTermination()

"""
WINDOWS = """
table = spark.range(1).selectExpr("id AS x", "now() AS ts")
counted = rows().withWatermark("ts", "3 seconds").groupBy(F.window("ts", "5 seconds"))
write(counted.agg(F.collect_list("id").alias("ids")).select("window.end", "ids"), "clicks")
"""
SQL = """
rows().createOrReplaceTempView("t")
text = "SELECT window.end, collect_list(id) ids FROM STREAM t WATERMARK ts DELAY OF INTERVAL 3 SECONDS "
write(spark.sql(text + "GROUP BY window(ts, '5 seconds')"), "clicks")
"""
DEDUPLICATION = """
write(rows().withWatermark("ts", "3 seconds").dropDuplicatesWithinWatermark(["id"]).select("id"), "clicks")
"""
BATCHES = random_batches(11, 6)


@dataclass
class Site:
    """A program, its input and what it puts out."""

    folder: Path
    written: int = 0

    def write(self, batches: list[list[Row]]) -> None:
        for rows in batches:
            write_batch(self.folder / "views", self.written, rows)
            self.written += 1

    def run(self, text: str) -> None:
        job = self.folder / "job.py"
        job.write_text(BEGIN + text)
        run(str(job), [str(self.folder / "views"), str(self.folder)])

    def out(self) -> list[dict[str, Any]]:
        files = sorted((self.folder / "clicks").glob("*.json"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def site(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    spark.conf.set("spark.tidemark.job", "shop")
    yield Site(tmp_path)
    for key in ("job", "controller.url", "mode", "close.at.end", "late.folder"):
        spark.conf.unset(f"spark.tidemark.{key}")


def conf_url(spark: SparkSession, url: str) -> None:
    spark.conf.set("spark.tidemark.controller.url", url)


@pytest.mark.parametrize(
    ("text", "conf"),
    [
        (WINDOWS, {}),
        pytest.param(SQL, {}, marks=pytest.mark.soak),
        (WINDOWS, {"mode": "Live", "close.at.end": "true"}),
    ],
    ids=["API", "SQL", "Live"],
)
def test_the_ledger_of_a_program_that_was_never_edited_is_what_its_sink_lacks(
    spark: SparkSession, site: Site, text: str, conf: dict[str, str]
) -> None:
    for key, value in conf.items():
        spark.conf.set(f"spark.tidemark.{key}", value)
    site.write(BATCHES)
    with Controller(f"sqlite:///{site.folder / 'tidemark.db'}") as controller:
        with served(controller.http.app) as url:
            conf_url(spark, url)
            site.run(text)
        stream = "/v1/jobs/shop/streams/clicks.views.ts"
        answer = controller.http.get(f"{stream}/reports").json()["reports"]
        live = controller.http.get(stream).json()["live"]
    assert sum(report["rows"] for report in answer) == sum(map(len, BATCHES))
    watermark_ms = max(report["watermark_ms"] for report in answer)
    closed = {row.id for rows in BATCHES for row in rows if _end_ms(row) <= watermark_ms}
    lost = closed - {identity for line in site.out() for identity in line["ids"]}
    assert len(lost) == sum(report["late_min"] for report in answer) > 0
    assert (live is not None) == ("mode" in conf)


def _end_ms(row: Row) -> int:
    return (row.event_time_us // 5_000_000 + 1) * 5_000


def test_each_start_takes_the_newest_bound_and_what_stands_above_the_watermark_knows_it(
    spark: SparkSession, site: Site
) -> None:
    """Deduplication reads the bound from the metadata of the event time."""
    with BoundServer("shop", "clicks.views.ts") as controller:
        conf_url(spark, controller.url)
        for number in range(2):
            site.write([BATCHES[number]])
            site.run(DEDUPLICATION)
            controller.publish(40_000, mode="OnRestart")
    bounds = [each["bound_ms"] for each in controller.acknowledgements]
    assert bounds == [3_000, 40_000]
    assert len(site.out()) == len({line["id"] for line in site.out()})
    horizons = [(each["downstream"] or {}).get("horizon_ms") for each in controller.acknowledgements]
    assert len(set(horizons)) == 1, "what a horizon adds to the bound that moves"


UNNAMED = """
import os
counted = rows().withWatermark("ts", "3 seconds").groupBy(F.window("ts", "5 seconds")).count()
writer = counted.writeStream.format("noop").trigger(availableNow=True).option("checkpointLocation", CHECKPOINT)
(writer.queryName(NAME) if NAME else writer).start().awaitTermination()
"""


def test_a_query_that_goes_on_from_its_checkpoint_is_the_stream_that_it_was(
    spark: SparkSession, site: Site
) -> None:
    """Called otherwise, of a job that is called otherwise, and from a folder that was moved."""
    first, moved = site.folder / "counts" / "checkpoint", site.folder / "elsewhere"
    with ReportServer() as controller:
        conf_url(spark, controller.url)
        for number, (checkpoint, name) in enumerate([(first, None), (first, "sums"), (moved, "other")]):
            if checkpoint is moved:
                first.rename(moved)
                spark.conf.set("spark.tidemark.job", "")
            site.write([BATCHES[number]])
            site.run(f"CHECKPOINT, NAME = {str(checkpoint)!r}, {name!r}\n{UNNAMED}")
    assert controller.reports.keys() == {("shop", "counts.views.ts")}
    assert len({each.run_id for each in controller.reports["shop", "counts.views.ts"]}) == 3


def test_a_checkpoint_in_a_new_temporary_folder_each_time_is_one_stream(
    spark: SparkSession, site: Site
) -> None:
    site.write(BATCHES[:1])
    with ReportServer() as controller:
        conf_url(spark, controller.url)
        for _ in range(2):
            checkpoint = tempfile.mkdtemp(prefix="window-watermark")
            site.run(f"CHECKPOINT, NAME = {checkpoint + '/checkpoints'!r}, None\n{UNNAMED}")
            shutil.rmtree(checkpoint)
    assert controller.reports.keys() == {("shop", "views.ts")}


def test_a_checkpoint_that_takes_no_file_of_ours_stops_nothing(
    spark: SparkSession, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.write(BATCHES[:1])
    (site.folder / "counts").mkdir()
    (site.folder / "counts" / "tidemark").write_text("a file in the place of our folder")
    with ReportServer() as controller:
        conf_url(spark, controller.url)
        site.run(f"CHECKPOINT, NAME = {str(site.folder / 'counts')!r}, None\n{UNNAMED}")
    assert controller.reports.keys() == {("shop", "counts.views.ts")}
    assert "the names of streams" in caplog.text


def test_a_query_that_tidemark_would_reject_runs_and_is_reported(
    spark: SparkSession, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.write(BATCHES[:2])
    gap = """
gap = F.when(F.col("partition") == 0, "2 seconds").otherwise("3 seconds")
sessions = rows().withWatermark("ts", "3 seconds").groupBy(F.session_window("ts", gap), "partition")
write(sessions.agg(F.collect_list("id").alias("ids")).select("ids"), "clicks")
"""
    with BoundServer("shop", "clicks.views.ts") as controller:
        conf_url(spark, controller.url)
        site.run(gap)
    (line,) = (each for each in caplog.messages if "depends on the row" in each)
    assert not re.search("withWatermark|adaptive_watermark|write ", line), "words for a call"
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    assert site.out()


NOTHING_LATE = """
counted = rows().withWatermark("ts", "3 seconds").groupBy("partition").count()
counted.writeStream.format("noop").outputMode("update").trigger(availableNow=True).start().awaitTermination()
"""


def test_a_query_that_loses_nothing_is_no_error_and_no_warning(
    spark: SparkSession, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.write(BATCHES[:2])
    with ReportServer() as controller:
        conf_url(spark, controller.url)
        site.run(NOTHING_LATE)
    (reports,) = controller.reports.values()
    assert (reports[0].contradiction or "").startswith(LOSES_NONE)
    assert not [
        each for each in caplog.records if each.name == "tidemark.spark" and each.levelno > logging.INFO
    ]


def test_windows_that_no_second_divides_are_judged(spark: SparkSession, site: Site) -> None:
    site.write(BATCHES)
    with ReportServer() as controller:
        conf_url(spark, controller.url)
        site.run(WINDOWS.replace("5 seconds", "2500 milliseconds"))
    assert controller.ledger("clicks.views.ts").late_min > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            WINDOWS.replace("rows()", "rows().alias('l').join(table, F.expr('x < 9'))").replace(
                '"ts"', '"l.ts"'
            ),
            "a watermark is left as it is: several columns are called 'ts'",
        ),
        (WINDOWS, "spark.tidemark.controller.url is not set, so nothing is watched"),
    ],
)
def test_where_tidemark_fails_the_query_runs_as_it_is_with_one_line(
    spark: SparkSession,
    site: Site,
    capsys: pytest.CaptureFixture[str],
    text: str,
    said: str,
) -> None:
    site.write(BATCHES)
    if text is not WINDOWS:
        conf_url(spark, "http://127.0.0.1:9")
    site.run(text)
    assert site.out()
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("tidemark:"))
    assert line.removeprefix("tidemark: ").startswith(said)


def test_a_closing_step_by_conf_closes_the_runs_of_a_plain_checkpoint(
    spark: SparkSession, site: Site
) -> None:
    site.write(BATCHES[:2])
    site.run(WINDOWS)  # no controller: as it is
    before = len(site.out())
    site.write(BATCHES[2:])
    with BoundServer("shop", "clicks.views.ts") as controller:
        conf_url(spark, controller.url)
        spark.conf.set("spark.tidemark.close.at.end", "true")
        site.run(WINDOWS)
    assert len(site.out()) > before
    assert controller.acknowledgements[-1]["run_end"] == "AtBound"


FILTERED = """
kept = rows().filter("id % 7 > 0").selectExpr("id", "ts + interval 1 second AS ts")
write(kept.withWatermark("ts", "3 seconds").groupBy(F.window("ts", "5 seconds")).count(), "clicks")
"""
JOIN = """
one, other = (rows().selectExpr("id AS " + key, "ts AS " + time).withWatermark(time, "3 seconds")
              for key, time in (("l", "lt"), ("r", "rt")))
write(one.join(other, F.expr("l = r AND lt = rt")).select("l"), "clicks")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "streams"), [(FILTERED, ["clicks.views.ts"]), (JOIN, ["clicks.views.lt", "clicks.views.rt"])]
)
def test_the_conf_keeps_the_late_rows_of_a_program_that_was_never_edited(
    spark: SparkSession, site: Site, text: str, streams: list[str]
) -> None:
    folder = site.folder / "late"
    spark.conf.set("spark.tidemark.late.folder", str(folder))
    site.write(BATCHES)
    with ReportServer() as controller:
        conf_url(spark, controller.url)
        site.run(text)
        assert flush(
            PATIENCE_S
        )  # at the end of a program late rows have seconds, which a busy machine may need
    for stream in streams:
        late, tally = spark.read.parquet(str(folder / stream)), controller.ledger(stream)
        assert 0 < tally.late_min <= late.count() <= tally.late_max
        assert late.filter("late.reason != 'late'").count() == 0


@pytest.mark.parametrize(
    ("below", "said"),
    [
        ('.withColumn("x", F.rand())', "not deterministic"),
        ('.dropDuplicates(["id", "ts"])', "Deduplicate below the watermark"),
    ],
)
def test_late_rows_that_would_be_others_when_read_again_are_counted_all_the_same(
    spark: SparkSession, site: Site, caplog: pytest.LogCaptureFixture, below: str, said: str
) -> None:
    spark.conf.set("spark.tidemark.late.folder", str(site.folder / "late"))
    site.write(BATCHES)
    with ReportServer() as controller:
        conf_url(spark, controller.url)
        site.run(WINDOWS.replace("rows()", f"rows(){below}"))
    (line,) = (each for each in caplog.messages if "spark.tidemark.late.folder is left out" in each)
    assert said in line
    assert controller.ledger("clicks.views.ts").late_min > 0


def test_the_program_has_its_own_arguments_exit_code_and_error(tmp_path: Path) -> None:
    """As a file of Python, which is how spark-submit runs it."""
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    job = tmp_path / "job.py"
    job.write_text("import sys, beside\nprint(__name__, sys.argv[1:], beside.NAME)\nsys.exit(7)\n")
    command = [sys.executable, str(pyspark_run.__file__), str(job), "--conf", "its own"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (done.returncode, done.stdout) == (7, "__main__ ['--conf', 'its own'] beside\n")
    job.write_text("raise RuntimeError('of the job')\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("RuntimeError: of the job")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "name the program to run"),
        (("absent.py",), "there is no file absent.py"),
        (("--conf", "spark.tidemark.job", __file__), "write it as KEY=VALUE"),
    ],
)
def test_a_command_that_makes_no_sense_runs_nothing(
    capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    assert exit_code("run", given=given) == 2
    assert said in capsys.readouterr().err


def test_the_command_becomes_the_program_with_its_conf_for_spark(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("import os, sys\nprint(sys.argv[1:], os.environ['PYSPARK_SUBMIT_ARGS'])\nsys.exit(9)\n")
    command = [sys.executable, "-m", "tidemark.controller", "run", "--conf", "spark.tidemark.job=my shop"]
    done = subprocess.run([*command, str(job), "--path", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    assert done.stdout == "['--path', 'x'] --conf 'spark.tidemark.job=my shop' pyspark-shell\n"


def test_the_path_for_spark_submit_is_the_file_that_runs_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("run", given=("--path",)) == 0
    assert capsys.readouterr().out.strip() == pyspark_run.__file__
