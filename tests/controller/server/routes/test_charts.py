"""What charts read: history, heat map, curve and preview, over any span, with gaps that are not zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, Retention
from tidemark.models.protocol.messages import Report

from support.controller_app import STREAM, Controller
from support.policies import at_once
from support.reports import START_US, query_reports
from support.streams import SECOND, Row

MINUTES = (*range(10), *range(20, 30), *range(90, 95), *range(3 * 1_440, 3 * 1_440 + 5))
"""Minutes after the start that have a batch: with gaps of ten minutes, an hour and days."""


def batch(number: int) -> list[Row]:
    """The rows of a batch; those of one partition need some 40 s: they are that much older than what the filter of
    the batch knows, the rows up to two batches before."""
    at_us, known_us = (START_US + MINUTES[max(n, 0)] * SLOT_US for n in (number, number - 2))
    rows = [(name, at_us - 1_000 * (17 * n % 5_000)) for n, name in enumerate("abc" * 40)]
    return [*rows, *(("slow", known_us - 45 * SECOND - n * 1_000) for n in range(40))]


def spread(number: int) -> list[Row]:
    """The rows of a batch, those of the slow partition up to 40 s apart."""
    return [(name, at_us - n * SECOND * (name == "slow")) for n, (name, at_us) in enumerate(batch(number))]


def reports(rows: Callable[[int], list[Row]] = batch) -> list[Report]:
    made = query_reports([rows(number) for number in range(len(MINUTES))], bound_ms=20_000)
    return [
        replace(report, started_us=START_US + minute * SLOT_US)
        for report, minute in zip(made, MINUTES, strict=True)
    ]


REPORTS = reports()
TODAY = {"from_us": START_US, "to_us": START_US + 100 * SLOT_US}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A stream with all of the reports, with a decision, a snapshot and upkeep done."""
    url = f"sqlite:///{tmp_path_factory.mktemp('charts') / 'tidemark.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("module_postgres_url")
    with Controller(url) as controller:
        controller.clock.now_us = START_US + 4 * DAY_US
        controller.put(
            "/slo", {"target_ppm": 900_000, "latency_cap_ms": 864_000_000, "horizon_ms": 4 * 86_400_000}
        )
        controller.put("/policy", at_once(max_bound_ms=600_000))
        controller.report_all(REPORTS)
        controller.tick()
        run_upkeep(controller)
        controller.snapshot()
        yield controller


def run_upkeep(controller: Controller) -> None:
    service = controller.service
    upkeep = Upkeep(service.database, service.decider.leases, Retention(minutes_days=2))
    _, finished = upkeep.run_upkeep(1, 1_000)
    assert finished


def answer(controller: Controller, path: str, **params: Any) -> dict[str, Any]:
    answer = controller.get(path, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


# -- history -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_slot_without_a_batch_is_a_gap_and_not_a_zero(seen: Controller) -> None:
    found = answer(
        seen, "/history", from_us=START_US + 3 * DAY_US, to_us=START_US + 3 * DAY_US + 10 * SLOT_US
    )
    assert found["slot_us"] == SLOT_US
    assert [slot["from_us"] for slot in found["slots"]] == [
        START_US + 3 * DAY_US + n * SLOT_US for n in range(10)
    ]
    with_rows, without = found["slots"][:5], found["slots"][5:]
    for slot in with_rows:
        assert (slot["rows"], slot["pairs"], slot["unjudged_rows"], slot["future_rows"]) == (160, 160, 0, 0)
        assert slot["in_use_bound_ms"] == 20_000
        assert slot["need_p50_ms"] <= slot["need_p90_ms"] <= slot["need_target_ms"] <= slot["need_max_ms"]
    for slot in without:
        empty = {name for name, value in slot.items() if value is None}
        assert empty >= set(slot) - {"from_us", "published_bound_ms"}
    late = [slot["late_max"] for slot in with_rows]
    assert late == [slot["late_min"] for slot in with_rows]
    assert sum(late) == sum(tally_of(seen, report) for report in REPORTS[-5:])


def tally_of(controller: Controller, report: Report) -> int:
    page = answer(controller, "/reports", limit=1_000)["reports"]
    late: int = next(row["late_max"] for row in page if row["batch_id"] == report.batch_id)
    return late


@pytest.mark.parametrize("points", [2, 7, 60, 300, 2_000])
def test_no_row_is_lost_or_counted_twice_whatever_the_width_of_slots(seen: Controller, points: int) -> None:
    found = answer(seen, "/history", from_us=START_US, to_us=START_US + 4 * DAY_US, points=points)
    assert len(found["slots"]) <= points
    assert found["slots"][0]["from_us"] <= START_US
    assert sum(slot["rows"] or 0 for slot in found["slots"]) == sum(report.rows for report in REPORTS)
    # What is rolled up by the hour has no minutes any more.
    assert found["slot_us"] >= HOUR_US
    assert found["slot_us"] * len(found["slots"]) == found["to_us"] - found["from_us"]


def test_reports_that_are_not_counted_yet_are_in_it(controller: Controller) -> None:
    controller.report_all(REPORTS[:20])
    before = answer(controller, "/history", **TODAY, points=200)
    assert sum(slot["rows"] or 0 for slot in before["slots"]) == sum(report.rows for report in REPORTS[:20])
    heat = answer(controller, "/heatmap", **TODAY)
    controller.snapshot()
    run_upkeep(controller)
    assert answer(controller, "/history", **TODAY, points=200) == before
    again = answer(controller, "/heatmap", **TODAY)
    assert cells_of(again) == cells_of(heat)


def test_minutes_are_kept_as_long_as_needs_are_and_then_the_hours(seen: Controller) -> None:
    day_us = REPORTS[-1].started_us
    old, new = (
        answer(seen, "/history", from_us=from_us, to_us=to_us)["slot_us"]
        for from_us, to_us in ((START_US, START_US + HOUR_US), (day_us - HOUR_US, day_us + 1))
    )
    assert (old, new) == (HOUR_US, SLOT_US)


def test_the_published_bound_and_the_rollout_are_in_their_time(seen: Controller) -> None:
    now_us = seen.clock()
    found = answer(seen, "/history", from_us=now_us - HOUR_US, to_us=now_us + HOUR_US, points=24)
    published = seen.status()["published"]["bound_ms"]
    assert published is not None
    for slot in found["slots"]:
        after = slot["from_us"] <= now_us < slot["from_us"] + found["slot_us"]
        assert slot["published_bound_ms"] == (published if after else None)
    (rollout,) = found["rollouts"]
    assert (rollout["to_bound_ms"], rollout["published_us"]) == (published, now_us)
    assert answer(seen, "/history", **TODAY)["rollouts"] == []


def test_the_share_is_that_of_the_slo_or_99_percent(seen: Controller, controller: Controller) -> None:
    assert answer(seen, "/history")["target_ppm"] == 900_000
    controller.report_all(REPORTS[:3])
    assert answer(controller, "/history")["target_ppm"] == 990_000


# -- the heat map --------------------------------------------------------------------------------------------------


def cells_of(heat: dict[str, Any]) -> dict[str, Any]:
    return {row["partition"]: row["cells"] for row in heat["partitions"]}


def test_the_most_costly_partition_comes_first_and_what_was_not_seen_is_null(seen: Controller) -> None:
    heat = answer(seen, "/heatmap", from_us=START_US + 3 * DAY_US, to_us=START_US + 3 * DAY_US + HOUR_US)
    assert (heat["slot_us"], len(heat["slots"]), heat["total"]) == (SLOT_US, 60, 4)
    first = heat["partitions"][0]
    assert (first["partition"], first["skewed"]) == ("slow", True)
    for row in heat["partitions"]:
        assert [cell is not None for cell in row["cells"]] == [True] * 5 + [False] * 55
        assert all(cell["pairs"] == 40 for cell in row["cells"][:5])
        assert all((cell["need_ms"] > 20_000) == (row["partition"] == "slow") for cell in row["cells"][:5])


@pytest.mark.parametrize(
    ("span_us", "slots", "slot_us"),
    [
        (HOUR_US, 168, SLOT_US),
        (6 * HOUR_US, 168, 10 * SLOT_US),
        (DAY_US, 168, 10 * SLOT_US),
        (DAY_US, 96, HOUR_US),
        (4 * DAY_US, 168, HOUR_US),
        (20 * DAY_US, 168, DAY_US),
    ],
)
def test_every_pair_is_in_one_cell_whatever_the_width_of_slots(
    seen: Controller, span_us: int, slots: int, slot_us: int
) -> None:
    to_us = START_US + 3 * DAY_US + HOUR_US
    heat = answer(seen, "/heatmap", from_us=max(to_us - span_us, 0), to_us=to_us, slots=slots)
    assert heat["slot_us"] == slot_us
    assert len(heat["slots"]) <= slots
    counted = sum(cell["pairs"] for row in heat["partitions"] for cell in row["cells"] if cell is not None)
    history = answer(seen, "/history", from_us=heat["from_us"], to_us=heat["to_us"], points=2_000)
    known = sum(slot["rows"] or 0 for slot in history["slots"])
    # The first two batches met a filter that knew nothing: their rows have no needs.
    early = sum(report.rows for report in REPORTS[:2]) if heat["from_us"] <= START_US else 0
    assert counted == known - early


def test_only_as_many_partitions_as_are_asked_for_are_listed_and_how_many_there_are(seen: Controller) -> None:
    heat = answer(seen, "/heatmap", limit=1)
    assert [row["partition"] for row in heat["partitions"]] == ["slow"]
    assert heat["total"] == 4


def test_the_bound_beside_the_cells_is_the_effective_one_by_that_name(seen: Controller) -> None:
    """The rows need some 40 s, and the job runs with 20 s."""
    assert answer(seen, "/heatmap")["effective_bound_ms"] == answer(seen, "")["effective_bound_ms"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batches", "span_us", "slots", "slot_us"),
    [
        (25, 6 * HOUR_US, 168, 10 * SLOT_US),
        (25, DAY_US, 96, HOUR_US),
        (len(MINUTES), 20 * DAY_US, 168, DAY_US),
    ],
)
def test_when_the_target_changes_the_cells_are_about_the_new_one_whatever_was_kept(
    tmp_path: Path, batches: int, span_us: int, slots: int, slot_us: int
) -> None:
    span = {"from_us": START_US, "to_us": START_US + span_us, "slots": slots}

    def filled(of: Controller, target_ppm: int) -> dict[str, Any]:
        of.clock.now_us = START_US + 4 * DAY_US
        of.put("/slo", {"target_ppm": target_ppm})
        of.report_all(reports(spread)[:batches])
        run_upkeep(of)
        of.snapshot()
        return answer(of, "/heatmap", **span)

    with Controller(f"sqlite:///{tmp_path / 'other.db'}") as other:
        wanted = filled(other, 500_000)
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as controller:
        before = filled(controller, 900_000)
        controller.put("/slo", {"target_ppm": 500_000})
        at_once = answer(controller, "/heatmap", **span)
        run_upkeep(controller)
        kept = answer(controller, "/heatmap", **span)

    assert wanted["slot_us"] == slot_us
    assert cells_of(before) != cells_of(wanted) == cells_of(at_once) == cells_of(kept)


def test_a_report_that_comes_late_is_in_the_cells_of_its_time(controller: Controller) -> None:
    late = REPORTS[5]
    controller.report_all([report for report in REPORTS if report is not late])
    controller.snapshot()
    run_upkeep(controller)
    span = {"from_us": START_US, "to_us": START_US + DAY_US, "slots": 24}
    before = answer(controller, "/heatmap", **span)
    controller.report(late)
    controller.snapshot()
    run_upkeep(controller)
    after = answer(controller, "/heatmap", **span)
    for row, old in zip(after["partitions"], before["partitions"], strict=True):
        assert row["cells"][0]["pairs"] == old["cells"][0]["pairs"] + 40
        assert row["cells"][1:] == old["cells"][1:]


# -- curve and preview ---------------------------------------------------------------------------------------------


def test_the_curve_carries_what_a_chart_of_it_needs(seen: Controller) -> None:
    curve = answer(seen, "/curve")
    status = seen.status()
    assert (curve["target_ppm"], curve["latency_cap_ms"], curve["state_cap_rows"]) == (
        900_000,
        864_000_000,
        None,
    )
    assert curve["operating"] == {
        "bound_ms": status["in_use_bound_ms"],
        "is_published": False,
        "effective_bound_ms": status["effective_bound_ms"],
    }
    assert curve["recommended_bound_ms"] == status["recommended"]["bound_ms"]
    points = curve["points"]
    assert len(points) >= 24
    for point in points:
        assert point["completeness_min_ppm"] <= point["completeness_ppm"] <= point["completeness_max_ppm"]
    meeting = [point["bound_ms"] for point in points if point["meets_all"]]
    assert meeting
    assert min(meeting) <= curve["recommended_bound_ms"]
    # Completeness grows with the bound, so what meets the target is one stretch of it.
    assert [
        point["bound_ms"] for point in points if min(meeting) <= point["bound_ms"] <= max(meeting)
    ] == meeting


def test_without_an_slo_the_curve_judges_nothing(controller: Controller) -> None:
    controller.report_all(REPORTS[:10])
    curve = answer(controller, "/curve")
    assert curve["target_ppm"] is None
    assert {point["meets_all"] for point in curve["points"]} == {None}


@pytest.mark.parametrize("bound_ms", [0, 5_000, 20_000, 60_000, 600_001, 10**12])
def test_a_preview_agrees_with_the_curve_and_says_it_in_words(seen: Controller, bound_ms: int) -> None:
    found = answer(seen, "/preview", bound_ms=bound_ms)
    (point,) = answer(seen, "/curve", bound_ms=bound_ms)["points"]
    for name in ("completeness_min_ppm", "completeness_max_ppm", "latency_wall_ms", "state_rows", "rows"):
        assert found[name] == point[name], name
    assert found["meets_target"] is (bound_ms >= 60_000)
    assert ("meets the target of 90 %" in found["text"]) is found["meets_target"]
    assert found["beyond_evidence"] is (bound_ms >= 60_000)
    assert ("no row needed more than" in found["text"]) is found["beyond_evidence"]
    assert ("maximum bound" in found["text"]) is (bound_ms > 600_000)
    assert (found["transition"] is None) is (bound_ms == 20_000)
    assert found["late_a_day"] >= 0


def test_a_preview_of_a_stream_without_reports_says_so(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    found = answer(controller, "/preview", bound_ms=1_000)
    assert (found["rows"], found["completeness_ppm"], found["meets_target"]) == (0, None, None)
    assert "there are no reports" in found["text"]


def test_a_preview_follows_new_reports_and_a_new_slo(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(REPORTS[:10])
    before = answer(controller, "/preview", bound_ms=20_000)
    assert before["meets_target"] is False
    controller.report_all(REPORTS[10:20])
    assert answer(controller, "/preview", bound_ms=20_000)["rows"] > before["rows"]
    controller.put("/slo", {"target_ppm": 500_000})
    assert answer(controller, "/preview", bound_ms=20_000)["meets_target"] is True


# -- what cannot be answered ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/history", "/heatmap"])
def test_a_stream_without_reports_has_slots_and_nothing_in_them(controller: Controller, path: str) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    found = answer(controller, path)
    assert found["slots"]
    if path == "/heatmap":
        assert (found["total"], found["partitions"], found["effective_bound_ms"]) == (0, [], None)
    else:
        assert {slot["rows"] for slot in found["slots"]} == {None}


@pytest.mark.parametrize("path", ["/history", "/heatmap", "/preview?bound_ms=1"])
def test_of_a_stream_that_nothing_is_known_of_nothing_is_answered(controller: Controller, path: str) -> None:
    answer = controller.get(path)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:tidemark:problem:stream-not-found")


@pytest.mark.parametrize("path", ["/history", "/heatmap"])
@pytest.mark.parametrize(
    "params",
    [
        {"from_us": 10, "to_us": 10},
        {"from_us": 11, "to_us": 10},
        {"from_us": -1},
        {"points": 1, "slots": 1},
        {"points": 2_001, "slots": 1_001},
    ],
    ids=str,
)
def test_a_span_that_is_none_is_refused(seen: Controller, path: str, params: dict[str, int]) -> None:
    answer = seen.http.get(STREAM + path, params=params)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:tidemark:problem:invalid-parameter")


@pytest.mark.parametrize("span_us", [1, 10**17])
def test_a_span_of_any_length_has_a_bounded_answer(seen: Controller, span_us: int) -> None:
    for path, most in (("/history", 300), ("/heatmap", 168)):
        found = answer(seen, path, from_us=START_US, to_us=START_US + span_us)
        assert 1 <= len(found["slots"]) <= most
