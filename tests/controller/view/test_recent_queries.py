"""Several queries that report one stream, and a watermark that stands still while rows come, are said."""

from __future__ import annotations

import pytest

from support.controller_app import Controller
from support.rolled_job import RolledJob
from support.streams import SECOND


def conditions(job: RolledJob) -> dict[str, str]:
    return {condition["type"]: condition["detail"] for condition in job.status()["conditions"]}


def test_a_stream_that_two_queries_report_at_once_is_said_with_the_rows_of_each(
    controller: Controller,
) -> None:
    one, other = (RolledJob(controller, seed=seed) for seed in (1, 1))
    for _ in range(4):
        one.run(1, 5.0, rows=60, tick=False)
        other.run(1, 5.0, rows=50, tick=False, query_id="another")
    said = conditions(one)["SeveralQueries"]
    assert said.startswith("2 queries report it at once, and each row counts once for each of them; of late ")
    assert "240 rows by query" in said
    assert "200 rows by another" in said


def test_a_query_that_follows_another_is_not_at_once(controller: Controller) -> None:
    job = RolledJob(controller)
    job.run(4, 5.0, tick=False)
    job.run(4, 5.0, tick=False, query_id="after it")
    assert "SeveralQueries" not in conditions(job)


@pytest.mark.parametrize("stands_at_s", [None, -30])
def test_a_watermark_that_does_not_move_while_rows_come_is_said(
    controller: Controller, stands_at_s: int | None
) -> None:
    job = RolledJob(controller, bound_ms=5_000)
    job.run(3, 2.0, tick=False)
    stands_ms = 0 if stands_at_s is None else (job.at_us + stands_at_s * SECOND) // 1_000
    job.wait(900)
    for _ in range(12):
        job.run(1, 2.0, tick=False, watermark_ms=stands_ms, late_watermark_ms=stands_ms)
    said = conditions(job)["WatermarkStandsStill"]
    moved = "has never moved" if stands_at_s is None else "has not moved"
    assert said.startswith(f"the watermark {moved} over the last 12 batches with rows")


def test_a_watermark_that_waits_behind_a_wider_bound_does_not_stand_still(controller: Controller) -> None:
    """After a restart with a wider bound it waits until event time has come as far."""
    job = RolledJob(controller, bound_ms=5_000)
    job.run(20, 2.0, tick=False)
    held_ms = (job.at_us - 10 * SECOND) // 1_000
    job.bound_ms = 600_000
    for _ in range(12):
        job.run(1, 2.0, tick=False, watermark_ms=held_ms, late_watermark_ms=held_ms)
    assert "WatermarkStandsStill" not in conditions(job)
