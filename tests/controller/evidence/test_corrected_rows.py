"""Late rows of a stream with versions: those that came after the grace are counted apart from those that corrected."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from tidemark.controller.tools.cli import app

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.served import served
from support.streams import SECOND

GRACE_MS = 20_000


@pytest.fixture
def controller(either: Controller) -> Controller:
    return either


def test_corrected_rows_are_summed_with_the_late_ones_in_reports_status_metrics_and_the_command_line(
    controller: Controller,
) -> None:
    """Windows of 10 s, bound 5 s: batch 3 judges by W(2), 85 s after the start, and drops up to 65 s."""
    minute = START_US + 90 * SECOND
    batches = [[("0", minute)], [("0", minute)], [("0", minute)], []]
    # Windows that end at 70 s, 80 s and 90 s, and one that was final at 60 s.
    batches[3] = [("0", START_US + second * SECOND) for second in (61, 72, 75, 81, 52)]
    plain = query_reports(batches)
    reports = [
        replace(each, final_watermark_ms=max((each.late_watermark_ms or 0) - GRACE_MS, 0)) for each in plain
    ]
    controller.report_all(reports)
    controller.snapshot()

    completeness = controller.status()["completeness"]
    assert (completeness["late_min"], completeness["late_max"]) == (4, 4)
    assert (completeness["corrected_min"], completeness["corrected_max"]) == (3, 3)
    (newest, *_) = controller.get("/reports").json()["reports"]
    assert (newest["late_min"], newest["corrected_min"], newest["corrected_max"]) == (4, 3, 3)
    metrics = controller.http.get("/metrics").text
    assert 'tidemark_rows_corrected_total{spark_job="job",stream="stream"} 3' in metrics
    with served(controller.app) as url:
        printed = CliRunner().invoke(app, ["status", "job", "stream", "--url", url]).stdout
    words = " ".join(printed.split())
    assert "of the late rows 3 corrected a window, and 1 came after the grace" in words


def test_windows_that_come_out_once_are_not_corrected(controller: Controller) -> None:
    minute = START_US + 90 * SECOND
    batches = [[("0", minute)]] * 3 + [[("0", START_US)]]
    controller.report_all(query_reports(batches))

    completeness = controller.status()["completeness"]
    assert (completeness["late_max"], completeness["corrected_max"]) == (1, 0)
