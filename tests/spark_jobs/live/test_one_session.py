"""Several queries in one session: each live one is steered, and nothing of it reaches another query or the session."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import row_level
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.spark.running_query import RunningQuery

from support.live_comparisons import (
    LiveCompared,
    compare_ledger,
    compare_pairs,
    compare_sink,
    compare_watermarks,
    fates_of,
)
from support.live_operators import BEYOND, COPY, JOINS, KINDS, join
from support.live_streams import (
    Batches,
    Group,
    Input,
    LiveJob,
    closing_batch,
    groups_of,
    trailing_batches,
    work_off,
)
from support.patience import PATIENCE_S
from support.spark_streams import RecordingSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 4
WINDOWS, SLIDING = KINDS["tumbling, append"], KINDS["sliding"]
LEFT = Input(name="left", operator=row_level(), bound="3 seconds", ceiling=BEYOND)
RIGHT = replace(LEFT, name="right", bound="5 seconds")


def left_and_right(seed: str) -> tuple[list[Batches], list[Group]]:
    """Return the batches of two inputs, the second partly behind the first, and the groups in which they come."""
    streams = [
        trailing_batches(f"{seed}, left", FILES),
        trailing_batches(f"{seed}, right", FILES, partitions=4, first_id=COPY),
    ]
    closing = [closing_batch(), closing_batch(10**9 + 10, 4)]
    groups = [*groups_of(random.Random(seed), streams), [[rows] for rows in closing]]
    return [[*batches, rows] for batches, rows in zip(streams, closing, strict=True)], groups


def windows_job(spark: SparkSession, stage: Path, name: str, *, native: bool = False) -> LiveJob:
    """Return a query of windows over the left input."""
    kind = SLIDING if name == "sliding" else WINDOWS
    entry = Input(name="left", operator=kind.operator, bound="3 seconds", ceiling=None if native else BEYOND)
    return LiveJob(spark, stage / name, [entry], kind.plan, native=native, stage=stage)


def join_job(spark: SparkSession, stage: Path, name: str, *, native: bool = False) -> LiveJob:
    """Return a join of both inputs."""
    inputs = [replace(entry, ceiling=None if native else BEYOND) for entry in (LEFT, RIGHT)]
    return LiveJob(spark, stage / name, inputs, join("inner"), native=native, stage=stage)


def wrong_in(job: LiveJob, streams: Sequence[Batches], *, native: bool = False) -> list[str]:
    """Compare watermarks, ledger and sink of a job with the rows; a live one must have been steered."""
    compared, name = LiveCompared(), job.folder.name
    streams = streams[: len(job.inputs)]
    wrong = compare_watermarks(job, streams, compared)
    if not native:
        if not compared.live_moves:
            wrong.append("it was not steered")
        for index, batches in enumerate(streams):
            wrong += compare_ledger(job, index, batches, compared)
    fates = [fates_of(job, index, batches) for index, batches in enumerate(streams)]
    if len(fates) == 1:
        wrong += compare_sink(job, SLIDING if "sliding" in name else WINDOWS, fates[0], compared)
    else:
        wrong += compare_pairs(job, JOINS["inner"], fates[0], fates[1], compared)
    if not compared.emitted:
        wrong.append("nothing came out")
    return [f"{name}: {text}" for text in wrong]


def confs_in_checkpoint(job: LiveJob) -> list[dict[str, str]]:
    """Return the confs that each batch of a checkpoint holds its query to."""
    entries = sorted((job.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(entry.read_text().splitlines()[1])["conf"] for entry in entries]


@pytest.fixture
def short_plans(spark: SparkSession) -> Iterator[None]:
    """Let Spark cut the text of every plan."""
    spark.conf.set("spark.sql.maxPlanStringLength", "1000")
    yield
    spark.conf.unset("spark.sql.maxPlanStringLength")


def new_session(spark: SparkSession) -> SparkSession:
    """Return a session without the confs of the first one, but for those that tests rest on."""
    new = spark.newSession()
    for key in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone"):
        new.conf.set(key, spark.conf.get(key) or "")
    return new


def cloned_session(spark: SparkSession) -> SparkSession:
    """Return a session that has the confs and the sources of the first one."""
    from pyspark.sql import SparkSession

    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


@pytest.mark.long
def test_live_queries_are_each_steered_whatever_starts_between_them_and_plain_ones_are_spark_s_own(
    spark: SparkSession, tmp_path: Path, short_plans: None
) -> None:
    """Two live plans are built, then started in the other order, with a plain join and plain windows between them."""
    streams, groups = left_and_right("one")
    before = dict(spark.conf.getAll)
    live = [
        windows_job(spark, tmp_path, "windows"),
        join_job(spark, tmp_path, "join"),
    ]
    plain = [
        join_job(spark, tmp_path, "plain join", native=True),
        windows_job(spark, tmp_path, "plain windows", native=True),
    ]
    frames = [job.frame() for job in live]
    work_off(
        live[1],
        lambda: [
            plain[0].start(),
            live[1].start(frames[1]),
            plain[1].start(),
            live[0].start(frames[0]),
        ],
        groups,
    )
    wrong = [text for job in live for text in wrong_in(job, streams)]
    wrong += [text for job in plain for text in wrong_in(job, streams, native=True)]

    assert wrong == []
    assert dict(spark.conf.getAll) == before
    confs = [conf for job in [*live, *plain] for conf in confs_in_checkpoint(job)]
    assert {conf["spark.sql.streaming.multipleWatermarkPolicy"] for conf in confs} == {"min"}


@pytest.mark.soak
def test_live_queries_of_a_new_and_of_a_cloned_session_are_steered_and_both_stay_as_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams, groups = left_and_right("sessions")
    sessions = (new_session(spark), cloned_session(spark))
    before = [dict(session.conf.getAll) for session in sessions]
    live = [
        windows_job(session, tmp_path, name)
        for session, name in zip(sessions, ("windows", "sliding"), strict=True)
    ]
    frames = [job.frame() for job in live]
    work_off(
        live[0],
        lambda: [job.start(frame) for job, frame in zip(live, frames, strict=True)],
        [group[:1] for group in groups],
    )

    assert [text for job in live for text in wrong_in(job, streams)] == []
    assert [dict(session.conf.getAll) for session in sessions] == before


@pytest.mark.soak
def test_the_user_s_own_policy_of_several_watermarks_stays_and_live_follows_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Under ``max`` the watermark is that of the input that wants most, as it is without Tidemark."""
    streams, groups = left_and_right("max")
    job = join_job(spark, tmp_path, "join")
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    try:
        work_off(job, lambda: [job.start()], groups)
    finally:
        spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")
    compared = LiveCompared()

    assert compare_watermarks(job, streams, compared, combine=max) == []
    assert compared.live_moves > 0
    assert {conf["spark.sql.streaming.multipleWatermarkPolicy"] for conf in confs_in_checkpoint(job)} == {
        "max"
    }


def test_a_plan_that_is_started_twice_is_steered_in_each_query_by_what_that_query_has_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The second begins when the first is at the end, and none of its rows is late by the watermark of the first."""
    streams, groups = left_and_right("twice")
    first = windows_job(spark, tmp_path, "first")
    frame = first.frame()
    running = first.start(frame)
    try:
        for group in groups:
            first.publish(group[:1])
            running.processAllAvailable()
        second = replace(first, folder=tmp_path / "second", output={}, idle_after=[], replayed=[])
        also = second.start(frame)
        try:
            also.processAllAvailable()
        finally:
            also.stop()
    finally:
        running.stop()
    assert flush(PATIENCE_S)
    everything = first.recorded["left"]
    wrong = []
    for job, query_id in ((first, str(running.id)), (second, str(also.id))):
        mine = RecordingSink([report for report in everything.reports if report.query_id == query_id])
        wrong += wrong_in(replace(job, recorded={"left": mine}), streams)

    assert wrong == []


def test_a_query_whose_plan_cannot_be_read_falls_back_to_its_ceiling_and_judges_no_row_and_the_log_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What stands between the call and the operator is not known, so neither are the rows that reach it."""
    monkeypatch.setattr(RunningQuery, "plan", lambda _: None)
    _, groups = left_and_right("unread")
    job = windows_job(spark, tmp_path, "windows")
    with caplog.at_level(logging.ERROR, "tidemark.spark"):
        work_off(job, lambda: [job.start()], [group[:1] for group in groups])

    reports = job.recorded["left"].reports
    assert reports
    assert all("plan cannot be read" in (report.contradiction or "") for report in reports)
    assert all(report.live is None for report in reports)
    assert "its plan cannot be read" in caplog.text
