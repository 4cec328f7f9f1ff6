"""A batch number that comes back with other content is of a new life of the query, and its rows are counted."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.controller_app import Controller
from support.reports import START_US
from support.rolled_job import RolledJob
from support.streams import SECOND


def _restored(controller: Controller, *, later_s: int) -> tuple[RolledJob, RolledJob]:
    """Return a job after 12 batches, and the same from a backup of its checkpoint after 6, in a run of its own."""
    job = RolledJob(controller, bound_ms=5_000)
    job.run(6, 10.0, tick=False)
    backup = copy.deepcopy({key: each for key, each in vars(job).items() if key != "controller"})
    job.run(6, 10.0, tick=False)
    restored = RolledJob(controller)
    vars(restored).update(backup)
    restored.run_number += 1
    restored._bases_ms = []
    restored.at_us = job.at_us + later_s * SECOND
    return job, restored


def _totals(job: RolledJob) -> dict[str, Any]:
    found: dict[str, Any] = job.status()["completeness"]
    return found


def test_batches_of_a_restored_checkpoint_are_counted_beside_those_before(controller: Controller) -> None:
    job, restored = _restored(controller, later_s=60)
    before = _totals(job)
    restored.run(10, 60.0, tick=False)
    after = _totals(job)

    # Six numbers came back; all ten batches count, with the rows that they lost.
    assert after["rows"] + after["unjudged_rows"] == before["rows"] + before["unjudged_rows"] + 10 * 60
    assert after["late_min"] > before["late_min"]
    status = job.status()
    (said,) = [one for one in status["conditions"] if one["type"] == "BatchesRanAgain"]
    assert said["detail"] == (
        "batches 6 to 11 ran again with other rows, as from a checkpoint that was restored from a backup: rows that "
        "were read twice count twice"
    )
    assert "CoverageGap" not in {one["type"] for one in status["conditions"]}
    (event,) = job.events("BatchesRanAgain")
    assert event["reason"].startswith("run run 1 ran batch 6 again with other rows")


def test_a_report_of_the_new_life_that_is_sent_again_counts_once(controller: Controller) -> None:
    job, restored = _restored(controller, later_s=60)
    state = copy.deepcopy(restored._random.getstate()), restored.at_us
    restored.run(1, 60.0, tick=False)
    before = _totals(job)
    restored.batch_id -= 1
    restored._random.setstate(state[0])
    restored.at_us = state[1]
    restored._bases_ms, restored._watermark_ms = [], restored._late_ms
    with pytest.raises(AssertionError, match="duplicate=True"):
        restored.run(1, 60.0, tick=False)
    assert _totals(job) == before


def test_a_batch_that_runs_again_with_the_same_rows_counts_once(controller: Controller) -> None:
    """Spark runs the newest batch again when its commit was lost, with the rows that the offset log names."""
    job = RolledJob(controller, bound_ms=5_000)
    job.run(5, 10.0, tick=False)
    rows = [("0", job.at_us - n * SECOND) for n in range(20)]
    job.report(rows)
    before = job.status()
    job.batch_id -= 1
    job.run_number += 1
    job.at_us += 30 * SECOND
    newest = controller.http.get(job.path + "/reports").json()["reports"][0]
    with pytest.raises(AssertionError, match="duplicate=True"):
        job.report(
            rows,
            watermark_ms=newest["watermark_ms"],
            late_watermark_ms=newest["late_watermark_ms"],
            late_base_ms=None,
        )
    assert job.status()["completeness"] == before["completeness"]
    assert not job.events("BatchesRanAgain")


def test_a_batch_of_a_restored_query_counts_although_another_query_reported_the_same_rows(
    controller: Controller,
) -> None:
    """Two queries of one source have the same batches, until one of them goes on from an older checkpoint."""
    rows = {
        name: [("0", START_US - n * SECOND) for n in range(count)] for name, count in (("a", 20), ("b", 30))
    }
    job = RolledJob(controller)
    for query_id, name, run in (("one", "b", 0), ("other", "a", 0), ("other", "b", 1)):
        job = RolledJob(controller)
        job.query_id, job.run_number = query_id, run
        job.report(rows[name])
    completeness = _totals(job)
    assert completeness["rows"] + completeness["unjudged_rows"] == 30 + 20 + 30
