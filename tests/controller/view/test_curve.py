"""The curve and the partitions as the API answers them, beside the exact ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemark.models.base.operators import row_level, tumbling
from tidemark.models.evidence.curve import Curve

from support.controller_app import Controller
from support.oracles import replay_reports
from support.reports import START_US, exponential_batches, query_reports

BATCHES = exponential_batches(24, 50, slow=3)
REPORTS = query_reports(BATCHES)
TARGET = {"target_ppm": 900_000}


@pytest.mark.parametrize("operator", [tumbling("10 seconds"), row_level()], ids=["windows", "rows"])
def test_the_curve_is_never_more_hopeful_than_the_exact_one_and_close_to_it(
    controller: Controller, operator: Any
) -> None:
    reports = query_reports(BATCHES, operator)
    controller.report_all(reports)
    answer = controller.get("/curve", params={"bound_ms": [0, 5_000, 20_000, 40_000]}).json()
    assert answer["basis"]["relative_error_ppm"] == 5_000
    exact = Curve.of_replay(replay_reports(reports), operator)
    early = 100
    for point in answer["points"]:
        truth = exact.at(point["bound_ms"] * 1_000)
        closer = exact.at(round(point["bound_ms"] * 1_000 * 0.98) - 2_000)
        assert point["rows"] == truth.rows - early
        assert truth.late <= point["late"] <= closer.late
        assert (point["latency_unknown"] == "NoWindows") == (operator == row_level())
        assert (point["latency_wall_ms"] is None) == (point["latency_unknown"] is not None)
        assert (point["latency_at_least_ms"] is None) == (point["latency_unknown"] != "WindowsOpen")


def test_the_latencies_of_the_curve_are_those_of_the_windows_that_the_horizon_can_tell_of(
    controller: Controller,
) -> None:
    # One row a second on time: the window [0, 10) is emitted by the first batch whose base has reached its end + bound.
    on_time = [[("0", START_US + n * 1_000_000)] for n in range(60)]
    controller.report_all(query_reports(on_time, bound_ms=0))
    zero, three = controller.get("/curve", params={"bound_ms": [0, 3_000]}).json()["points"]
    # The base reaches the end in batch 10, batch 11 emits with it, and ends 100 ms after its start.
    assert (zero["latency_base_ms"], zero["latency_wall_ms"]) == (0, 1_100)
    assert (three["latency_base_ms"], three["latency_wall_ms"]) == (3_000, 4_100)


def test_windows_that_had_ended_before_the_query_began_are_no_latency_of_any_bound(
    controller: Controller,
) -> None:
    """A replay of last year's rows: its windows close a year after their end, whatever the bound."""
    year_us = 365 * 86_400_000_000
    reports = query_reports([[("0", START_US + n * 1_000_000)] for n in range(60)], bound_ms=0)
    controller.put("/slo", TARGET)
    controller.report_all([replace(report, started_us=report.started_us + year_us) for report in reports])
    controller.clock.now_us = START_US + year_us + 60_000_000
    controller.tick()

    (point,) = controller.get("/curve", params={"bound_ms": 0}).json()["points"]
    transition = controller.status()["transition"]

    assert (point["latency_wall_ms"], point["latency_at_least_ms"]) == (None, None)
    assert point["latency_unknown"] == "NoWindows"
    assert "latency" not in (transition or {"text": ""})["text"]


def test_a_latency_of_windows_that_are_still_open_is_said_to_be_no_more_than_a_floor(
    controller: Controller,
) -> None:
    """A minute of rows under a bound of ten: no window has closed yet."""
    controller.report_all(query_reports([[("0", START_US + n * 1_000_000)] for n in range(60)], bound_ms=0))

    (point,) = controller.get("/curve", params={"bound_ms": 600_000}).json()["points"]
    preview = controller.get("/preview", params={"bound_ms": 600_000}).json()

    assert (point["windows_emitted"], point["latency_wall_ms"]) == (0, None)
    assert point["latency_at_least_ms"] == 600_000
    for name in ("latency_wall_ms", "latency_at_least_ms", "latency_unknown"):
        assert preview[name] == point[name]
    assert "windows would come at least " in preview["text"]
    assert "would still be open" in preview["text"]


def test_without_bounds_the_curve_has_a_ladder_around_the_needs(controller: Controller) -> None:
    controller.report_all(REPORTS)
    points = controller.get("/curve").json()["points"]
    bounds = [point["bound_ms"] for point in points]
    assert bounds == sorted(set(bounds))
    assert {0, 5_000} <= set(bounds)
    assert (points[-1]["late"], points[-1]["completeness_ppm"]) == (0, 1_000_000)


@pytest.mark.parametrize("bound", ["-1", "1.5", "x", str(2**70)])
def test_a_bad_bound_is_a_problem_that_names_the_parameter(controller: Controller, bound: str) -> None:
    controller.report(REPORTS[0])
    answer = controller.get("/curve", params={"bound_ms": bound})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("bound_ms")


def test_a_slow_partition_stands_out(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    page = controller.get("/partitions").json()
    assert page["share_ppm"] == 900_000
    parts = {part["partition"]: part for part in page["partitions"]}
    assert set(parts) == {"0", "1", "2", "3"}
    assert parts["3"]["need_ms"] > 4 * max(parts[name]["need_ms"] for name in "012")
    assert parts["3"]["behind_ms"] > 25_000
    assert sum(part["rows"] for part in parts.values()) == 1_200
    assert parts["0"]["last_event_time_us"] <= max(
        time for rows in BATCHES for name, time in rows if name == "0"
    )


def test_the_curves_of_the_partitions_add_up_to_that_of_the_stream(controller: Controller) -> None:
    controller.put("/slo", TARGET)
    controller.report_all(REPORTS)
    bounds = [0, 5_000, 20_000]
    whole = controller.get("/curve", params={"bound_ms": bounds}).json()["points"]
    parts = [
        controller.get("/partition-curve", params={"partition": name, "bound_ms": bounds}).json()["points"]
        for name in "0123"
    ]
    for number, point in enumerate(whole):
        assert sum(part[number]["rows"] for part in parts) == point["rows"]
        assert sum(part[number]["late"] for part in parts) == point["late"]
    assert parts[3][1]["completeness_ppm"] < parts[0][1]["completeness_ppm"]
    unknown = controller.get("/partition-curve", params={"partition": "9", "bound_ms": 0})
    assert (unknown.status_code, unknown.json()["points"]) == (200, [])
