"""What the conf says of a job that does not call Tidemark."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest

from tidemark.spark_jobs.attach.names import job_name
from tidemark.spark_jobs.attach.watermark import of_stream
from tidemark.spark_jobs.core.settings import SETTINGS, JobSettings
from tidemark.spark_jobs.core.wishes import Wishes

from support.tree import ROOT

STREAM = "counts.clicks.ts"


def wanted(
    session: dict[str, str], context: dict[str, str] | None = None, *, taken: Collection[str] = ()
) -> JobSettings:
    wishes = Wishes(session.get, STREAM, (context or {}).get)
    return wishes.first_that_fits(
        lambda settings: of_stream(settings, wishes, STREAM, "10000 milliseconds", taken=taken)
    )


def test_without_a_conf_a_stream_is_only_watched_and_no_query_is_rejected() -> None:
    found = wanted({})
    assert found.bound == "10000 milliseconds"
    assert (found.mode, found.ceiling, found.partition) == ("Off", None, "partition")
    assert not found.called


def test_what_is_said_of_one_stream_goes_before_what_is_said_of_all() -> None:
    found = wanted(
        {
            "spark.tidemark.mode": "OnRestart",
            f"spark.tidemark.stream.{STREAM}.mode": "Live",
            "spark.tidemark.stream.other.clicks.ts.mode": "Off",
            f"spark.tidemark.stream.{STREAM}.pin": "off",
        }
    )
    assert found.mode == "Live"
    assert found.pin == "Off"


def test_one_stream_can_be_renamed_and_left_alone() -> None:
    assert wanted({f"spark.tidemark.stream.{STREAM}.name": "clicks"}).stream == "clicks"
    assert wanted({"spark.tidemark.name": "all"}).stream == STREAM
    assert wanted({f"spark.tidemark.stream.{STREAM}.enabled": "false"}).enabled is False


@pytest.mark.parametrize(
    ("start", "request_ms", "limit_ms"), [("20s", None, 3_000), ("4s", None, 2_000), ("20s", "9000", 9_000)]
)
def test_a_request_at_the_start_fits_into_the_time_that_the_start_may_wait(
    start: str, request_ms: str | None, limit_ms: int
) -> None:
    """Else the side process is ended, while the controller is away, and nothing is watched."""
    context = {"spark.tidemark.start.timeout": start}
    context |= {} if request_ms is None else {"spark.tidemark.timeout.ms": request_ms}
    assert wanted({}, context).timeout_ms == limit_ms


@pytest.mark.parametrize(
    "context",
    [
        {"spark.tidemark.timeout.ms": "20000"},
        {"spark.tidemark.start.timeout": "soon"},
        {"spark.tidemark.start.timeout": "20"},
    ],
)
def test_what_the_start_cannot_wait_for_is_named(context: dict[str, str]) -> None:
    (line,) = wanted({}, context).left_out
    (key,) = context
    assert line.startswith(f"{key} is left out")


def test_two_streams_of_a_query_do_not_get_one_name() -> None:
    settings = wanted({f"spark.tidemark.stream.{STREAM}.name": "clicks"}, taken=["clicks"])
    assert settings.stream == STREAM
    assert ["'clicks' is another stream of the query" in line for line in settings.left_out] == [True]


def test_in_live_there_is_no_ceiling_but_the_one_that_is_set() -> None:
    assert wanted({"spark.tidemark.mode": "Live"}).ceiling is None
    assert (
        wanted({"spark.tidemark.mode": "Live", "spark.tidemark.ceiling": "1h"}).ceiling
        == "3600000 milliseconds"
    )


def test_addresses_files_and_folders_come_from_the_context_alone() -> None:
    """A client of a Connect server sets the conf of its session; the token is the server's."""
    keys = {setting.key for setting in SETTINGS.values() if setting.of_context}
    assert keys >= {f"spark.tidemark.{key}" for key in ("controller.url", "token.file", "cache.dir")}
    session = dict.fromkeys(keys, "http://elsewhere")
    session |= {
        f"spark.tidemark.stream.{STREAM}.{key.removeprefix('spark.tidemark.')}": "http://x" for key in keys
    }
    context = {"spark.tidemark.controller.url": "http://controller", "spark.tidemark.token.file": "/token"}
    settings = wanted(session, context)
    assert settings.controller_url == "http://controller"
    assert str(settings.token_file) == "/token"
    assert settings == wanted({}, context)


@pytest.mark.parametrize(
    ("application", "job"),
    [
        ("shop", "shop"),
        ("shop-2026-03-08T05:00", "shop"),
        ("pyspark-shell", "counts"),
        ("Spark shell", "counts"),
        ("Spark Connect server", "counts"),
        ("org.apache.spark.sql.connect.service.SparkConnectServer", "counts"),
        ("3f0c6c86-2a56-4e0c-8a35-5c0f4c9a0f0e", "counts"),
    ],
)
def test_a_job_is_called_as_its_application_if_somebody_named_that(application: str, job: str) -> None:
    assert job_name(application, "counts") == job


def test_what_the_jar_reads_stands_in_the_table() -> None:
    folder = ROOT / "spark_jobs" / "spark" / "java_sources" / "attach"
    read_there = {
        key
        for path in folder.glob("*.java")
        for key in re.findall(r'"(spark\.tidemark\.[\w.]+)"', path.read_text())
    }
    assert "spark.tidemark.python" in read_there
    assert read_there <= {setting.key for setting in SETTINGS.values()}
