"""Rows that no delay explains, such as seconds read as milliseconds: lost, counted and said, but no evidence."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.models.evidence.misdated import LONGEST_DELAY_US

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob
from support.streams import SECOND, Row

pytestmark = pytest.mark.slow

SLO = {"target_ppm": 990_000}
DAY_US = 86_400 * SECOND


def run(job: RolledJob, batches: int, late: Row | None = None, **changes: Any) -> None:
    """Report batches of 57 rows that are up to 6 s late, and 3 like ``late``; its time is seen from the batch."""
    for batch in range(batches):
        rows = [("0", job.at_us - (number * 37 + batch) % 60 * SECOND // 10) for number in range(57)]
        job.report(rows + ([] if late is None else [(late[0], job.at_us - late[1])] * 3), **changes)


def run_with_seconds(job: RolledJob, batches: int) -> None:
    """As ``run``; partition 3 writes seconds, which are read as milliseconds."""
    for _ in range(batches):
        run(job, 1, ("3", job.at_us - job.at_us // 1_000))


def conditions(controller: Controller) -> dict[str, str]:
    return {each["type"]: each["detail"] for each in controller.get().json()["conditions"]}


def test_one_producer_that_writes_seconds_never_steers(controller: Controller) -> None:
    """A bound of 20,486 days was published, though nobody was asked."""
    job = RolledJob(controller)
    job.put("slo", SLO)
    job.put("policy", at_once())
    run_with_seconds(job, 120)
    controller.tick()
    published = job.published()["bound_ms"]
    assert published is not None
    assert published < 10_000


def test_such_rows_are_a_condition_with_partition_share_and_the_likely_mistake(
    controller: Controller,
) -> None:
    job = RolledJob(controller)
    job.put("slo", SLO)
    run_with_seconds(job, 40)
    controller.tick()
    assert conditions(controller)["MisdatedRows"] == (
        "120 rows of partition '3', 5.00 % of all, are dated 1970-01-21: seconds read as milliseconds? "
        "No bound is meant for them, so they do not steer; of the 114 late rows 114 are theirs, or lost to a watermark "
        "that followed them"
    )
    found = {each["partition"]: each for each in controller.get("/partitions").json()["partitions"]}
    assert [(found[name]["misdated_rows"], found[name]["misdated"]) for name in "03"] == [
        (0, False),
        (120, True),
    ]
    assert (found["3"]["state"], found["3"]["skewed"]) == ("Active", False)
    lines = controller.http.get("/metrics").text.splitlines()
    labels = 'spark_job="job",stream="stream"'
    assert f"tidemark_rows_misdated_total{{{labels}}} 120" in lines
    assert f'tidemark_partition_rows_misdated_total{{partition="3",{labels}}} 120' in lines


def test_such_rows_are_lost_in_the_ledger_like_all_that_spark_drops(controller: Controller) -> None:
    job = RolledJob(controller)
    run_with_seconds(job, 40)
    completeness = controller.get().json()["completeness"]
    assert (completeness["rows"], completeness["late_min"]) == (2_400, 114)


@pytest.mark.parametrize("days", [1, 21, 300])
def test_rows_that_come_weeks_late_are_evidence_as_ever(controller: Controller, days: int) -> None:
    """Phones that were offline and corrections that were applied later: a bound for them is a person's choice."""
    job = RolledJob(controller)
    job.put("slo", SLO)
    run(job, 40, ("3", days * DAY_US))
    controller.tick()
    assert "MisdatedRows" not in conditions(controller)
    asked = controller.get().json()["recommended"]
    by_step = {step["kind"]: step["bound_ms"] for step in asked["steps"]}
    assert by_step["Quantile"] >= days * DAY_US // 1_000


def test_the_widest_bound_published_without_a_person_is_the_slos_window(controller: Controller) -> None:
    job = RolledJob(controller)
    job.put("slo", {**SLO, "window_ms": DAY_US // 1_000})
    job.put("policy", at_once())
    run(job, 120, ("3", 20 * DAY_US))
    controller.tick()
    assert job.published()["bound_ms"] == DAY_US // 1_000
    asked = controller.get().json()["recommended"]
    (limits,) = [step["reason"] for step in asked["steps"] if step["kind"] == "Limits"]
    assert limits == "limited to 1 d, the SLO's window: set max_bound_ms to allow more"


def test_a_bound_is_not_rolled_back_for_rows_that_no_bound_admits(controller: Controller) -> None:
    """A narrowing is verified though a producer begins to write seconds, and its prediction is scored without them."""
    job = RolledJob(controller)
    job.put("slo", SLO)
    job.put("policy", at_once())
    run(job, 120)
    controller.tick()
    job.restart()
    assert job.bound_ms < 10_000
    for _ in range(30):
        run_with_seconds(job, 10)
        controller.tick()
    (newest, *_) = job.rollouts()
    assert newest["state"] == "Verified", newest["reason"]
    assert newest["reason"].startswith("100.00 % of"), newest["reason"]


def test_the_oldest_plausible_row_counts_and_a_day_older_is_misdated(controller: Controller) -> None:
    job = RolledJob(controller)
    run(job, 10, ("3", LONGEST_DELAY_US - DAY_US))
    assert "MisdatedRows" not in conditions(controller)
    run(job, 10, ("3", LONGEST_DELAY_US + DAY_US))
    assert "longer ago than any delay (366 d)" in conditions(controller)["MisdatedRows"]
