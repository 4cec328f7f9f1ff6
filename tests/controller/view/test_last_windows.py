"""Jobs whose runs end by themselves: that their last windows stay open is said, with the way out."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.controller.tools.cli.checkup import Place, checkup
from tidemark.models.protocol.messages import Acknowledgement, RunEnd

from support.controller_app import Controller
from support.rolled_job import RolledJob


def ended(controller: Controller, run_end: RunEnd | None, **fields: Any) -> dict[str, str]:
    """Return the conditions after two runs of a job."""
    job = RolledJob(controller, bound_ms=5_000)
    for number in range(2):
        job.run(1, 2.0, tick=False, **fields)
        acknowledgement = Acknowledgement(
            query_id=job.query_id,
            run_id=f"run {number}",
            bound_ms=job.bound_ms,
            generation=None,
            source="job",
            mode="Off",
            applied_us=job.at_us,
            run_end=run_end,
        )
        assert controller.acknowledge(acknowledgement).status_code == 201
        job.wait(3_600)
    status = job.status()
    assert status["applied"]["run_end"] == run_end
    steps = {check.text: check.step for check in checkup(status, Place("http://x", "job", "stream"))}
    found = {each["type"]: each["detail"] for each in status["conditions"]}
    return {kind: f"{detail} -> {steps[detail]}" for kind, detail in found.items() if detail in steps}


def test_of_runs_that_read_all_there_is_the_last_windows_are_said_to_stay_open(
    controller: Controller,
) -> None:
    said = ended(controller, "AvailableNow")
    assert "WatermarkStandsStill" not in said
    assert "stay open until a run has newer rows" in said["LastWindowsOpen"]
    assert '-> write close_at_end="1 hour"' in said["LastWindowsOpen"]


def test_of_runs_of_one_batch_the_way_out_begins_with_another_trigger(controller: Controller) -> None:
    assert "-> write trigger(availableNow=True)" in ended(controller, "Once")["LastWindowsOpen"]


def test_a_closing_step_that_stops_at_the_bound_leaves_the_last_windows_open_and_moves_the_watermark(
    controller: Controller,
) -> None:
    said = ended(controller, "AtBound")["LastWindowsOpen"]
    assert "a checkpoint keeps the query's watermark" not in said
    assert '-> write close_at_end="1 hour"' in said


@pytest.mark.parametrize("run_end", ["Closed", None])
def test_nothing_is_said_of_runs_that_close_or_do_not_end(
    controller: Controller, run_end: RunEnd | None
) -> None:
    assert "LastWindowsOpen" not in ended(controller, run_end)


def test_in_update_mode_every_window_is_out_at_once(controller: Controller) -> None:
    assert "LastWindowsOpen" not in ended(controller, "AvailableNow", output_mode="update")


def test_a_watermark_that_no_run_moves_is_said_though_runs_are_hours_apart(controller: Controller) -> None:
    said = ended(controller, "AvailableNow", watermark_ms=0, late_watermark_ms=0)["WatermarkStandsStill"]
    assert said.startswith(
        "the watermark has never moved in 2 batches: a checkpoint keeps the query's watermark"
    )
    assert "spark.tidemark.close.at.end" in said
