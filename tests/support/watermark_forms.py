"""Forms of a column's name and of an interval: what ``withWatermark`` makes of each, and what the call makes of it.

    python -m support.watermark_forms

prints them as a table, for the Spark that runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.spark.event_time import DELAY
from tidemark.spark_jobs.spark.jvm import Py4JJavaError

SCHEMA = (
    "id long, Partition int, ts timestamp, `Event Time` timestamp, nested struct<ts: timestamp>, `a.b` timestamp, "
    "`back``tick` timestamp, ntz timestamp_ntz, day date"
)

INTERVALS = (
    "10 minutes",
    "10 MINUTES",
    "  10   minutes  ",
    "10\tminutes",
    "+10 minutes",
    "interval 10 minutes",
    "INTERVAL 10 MINUTES",
    "INTERVAL '10' MINUTE",
    "interval'10'minute",
    "INTERVAL '10' MINUTES '5' SECONDS",
    "INTERVAL '10 minutes'",
    "INTERVAL '1:30' HOUR TO MINUTE",
    "INTERVAL '1 10:30:40.5' DAY TO SECOND",
    "INTERVAL '1-2' YEAR TO MONTH",
    "1 hour 30 minutes",
    "1 hour -30 minutes",
    "-1 hour 2 hours",
    "1 month",
    "2 months 3 days",
    "1 year",
    "2 weeks",
    "1 day",
    "1 millisecond",
    "1500 microseconds",
    "500 microseconds",
    "1.5 seconds",
    ".5 seconds",
    "1. seconds",
    "0.0015 seconds",
    "0 seconds",
    "9223372036854775807 microseconds",
    "-5 seconds",
    "INTERVAL -'10' MINUTE",
    "-INTERVAL '10' MINUTE",
    "1 quarter",
    "1 nanosecond",
    "1e3 seconds",
    "10",
    "soon",
    "INTERVAL",
    "PT10M",
    "'10 minutes'",
    "INTERVAL '1:xx' HOUR TO MINUTE",
    "300000000 years",
    "INTERVAL '10' SECOND; drop",
)
"""That Spark decides on."""

OWN_INTERVALS = {
    "10 min": 600_000,
    "10m": 600_000,
    "1h30m": 5_400_000,
    "5s": 5_000,
    "5 sec": 5_000,
    "250ms": 250,
    "1.5 minutes": 90_000,
    "0": 0,
}
"""That only Tidemark takes, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Name:
    """A form of a name."""

    text: str
    plan: Callable[[DataFrame], DataFrame] = lambda df: df
    """Makes the frame."""
    about: str = ""
    """What the frame is, if it is not the plain one."""
    case_sensitive: bool = False
    better: str | None = None
    """Why Tidemark refuses what Spark takes."""


def _aliased(df: DataFrame) -> DataFrame:
    return df.alias("e")


def _joined(df: DataFrame) -> DataFrame:
    return df.select("id", "ts").alias("a").crossJoin(df.select("id", "ts").alias("b"))


def _windows(df: DataFrame) -> DataFrame:
    return df.withColumn("window", F.window("ts", "5 minutes"))


def _counts(df: DataFrame) -> DataFrame:
    return df.withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 minutes")).count()


_WINDOW = "is a window"
NAMES = (
    Name("ts"),
    Name("TS"),
    Name("TS", about="caseSensitive", case_sensitive=True),
    Name("ts", about="caseSensitive", case_sensitive=True),
    Name("`ts`"),
    Name("Event Time"),
    Name("`Event Time`"),
    Name("`event time`"),
    Name("`back``tick`"),
    Name("back`tick"),
    Name("a.b"),
    Name("`a.b`"),
    Name("nested.ts"),
    Name("`nested`.`ts`"),
    Name("`nested.ts`"),
    Name("e.ts"),
    Name("e.ts", _aliased, 'alias("e")'),
    Name("E.TS", _aliased, 'alias("e")'),
    Name("`e`.`Event Time`", _aliased, 'alias("e")'),
    Name("e.nested.ts", _aliased, 'alias("e")'),
    Name("f.ts", _aliased, 'alias("e")'),
    Name("ts", _joined, "join of two frames with ts"),
    Name("a.ts", _joined, "join of two frames with ts", better="there are 2 columns"),
    Name("window", _windows, "with a column window(ts)", better=_WINDOW),
    Name("window", _counts, "count by window(ts)", better=_WINDOW),
    Name("window.end", _counts, "count by window(ts)"),
    Name("missing"),
    Name("ntz"),
    Name("day"),
    Name("id"),
    Name("nested"),
    Name("*"),
    Name("`ts"),
    Name("ts + 1"),
)

Outcome = tuple[str, int] | str
"""The column with its delay in milliseconds, or the first line of the error."""


@dataclass(frozen=True, slots=True)
class Row:
    """A form with what came of it."""

    form: str
    about: str
    spark: Outcome
    tidemark: Outcome
    own: Outcome | None = None
    """What Tidemark alone makes of it."""
    better: str | None = None

    @property
    def agree(self) -> bool:
        """Whether Tidemark does as Spark does, or as is stated."""
        if self.own is not None:
            return isinstance(self.spark, str) and self.tidemark == self.own
        if self.better is not None:
            return not isinstance(self.spark, str) and self.better in str(self.tidemark)
        if isinstance(self.spark, str):
            return isinstance(self.tidemark, str)
        return self.tidemark == self.spark


def rows(spark: SparkSession, folder: Path) -> Iterator[Row]:
    """Return every form with what came of it."""
    df = spark.readStream.schema(SCHEMA).json(str(folder))
    for text in (*INTERVALS, *OWN_INTERVALS):
        own = ("ts", OWN_INTERVALS[text]) if text in OWN_INTERVALS else None
        yield Row(text, "interval", *_both(df, "ts", text), own)
    for name in NAMES:
        spark.conf.set("spark.sql.caseSensitive", str(name.case_sensitive).lower())
        try:
            about = f"name, {name.about}" if name.about else "name"
            yield Row(name.text, about, *_both(name.plan(df), name.text, "10 minutes"), better=name.better)
        finally:
            spark.conf.unset("spark.sql.caseSensitive")


def _both(df: DataFrame, name: str, interval: str) -> tuple[Outcome, Outcome]:
    return (
        _outcome(lambda: df.withWatermark(name, interval)),
        _outcome(lambda: df.transform(adaptive_watermark(name, interval, stream="forms"))),
    )


def _outcome(make: Callable[[], DataFrame]) -> Outcome:
    try:
        ((name, metadata),) = [(each.name, each.metadata) for each in make().schema if DELAY in each.metadata]
    except (PySparkException, Py4JJavaError, ValueError) as error:
        return next(line for line in str(error).splitlines() if line.strip())
    return name, int(metadata[DELAY])


def markdown(found: Iterator[Row]) -> str:
    """Return a table of rows."""
    lines = ["| form | what | Spark | Tidemark |", "| --- | --- | --- | --- |"]
    for row in found:
        tidemark = "the same" if row.tidemark == row.spark else _shown(row.tidemark)
        verdict = "" if row.agree else " **differs**"
        form = row.form.replace("\t", "\\t").replace("|", "\\|")
        code = f"`` {form} ``" if "`" in form else f"`{form}`"
        lines.append(f"| {code} | {row.about} | {_shown(row.spark)} | {tidemark}{verdict} |")
    return "\n".join(lines)


def _shown(outcome: Outcome) -> str:
    if isinstance(outcome, str):
        if outcome.startswith("Spark refuses"):
            _, more, hint = outcome.partition("; ")
            return f"refused, in Spark's words{more}{hint}"
        return "refused: " + outcome.replace("|", "\\|")[:110]
    column, delay_ms = outcome
    return f"`` {column} ``, {delay_ms:,} ms"


def _main() -> None:
    from tidemark.spark_jobs.spark.java import ensure_java

    ensure_java()
    builder: Any = SparkSession.builder
    spark = builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        with TemporaryDirectory() as folder:
            sys.stdout.write(f"PySpark {pyspark.__version__}\n\n{markdown(rows(spark, Path(folder)))}\n")
    finally:
        spark.stop()


if __name__ == "__main__":
    _main()
