"""Whatever a report may say, the stream is decided, every view answers, and other streams go on."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemark.controller.base.errors import TidemarkError
from tidemark.controller.reports.checks import check_report
from tidemark.controller.reports.sent_bodies import parse_report
from tidemark.controller.view.alerts.notifier import WINDOWS_S
from tidemark.controller.view.alerts.rules import active_alerts
from tidemark.controller.view.state.load import load_states
from tidemark.controller.view.state.partition_rows import load_partitions
from tidemark.controller.view.state.recent_reports import NO_RECENT_ROWS, load_recent_rows
from tidemark.models.base.operators import Operator, RowLevel, SessionWindow, TimeWindow, sliding
from tidemark.models.base.ranges import MAX_COUNT, MAX_ROWS, MAX_TIME_US
from tidemark.models.evidence.late_counts import LateCounts, LossCounts
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.granule_counts import GranuleCounts, PartitionCounts
from tidemark.models.protocol.messages import (
    Acknowledgement,
    AppendDelay,
    BoundAnswer,
    Envelope,
    LiveState,
    Report,
    to_json_object,
)

from support.controller_app import STREAM, Controller
from support.examples import examples
from support.other_releases import DOCUMENT
from support.reports import START_US, exponential_batches, query_reports
from support.taking import take_report

SECOND_US = 1_000_000
NOW_US = START_US + 3_600 * SECOND_US
"""The time of ``Controller.clock``."""


def report(batch: int, rows: int, operator: Operator, **changes: Any) -> Report:
    """Return the report of a batch of so many rows, all in one granule, a second after that of the batch before."""
    started_us = NOW_US - 120 * SECOND_US + batch * SECOND_US
    second = started_us // SECOND_US - 5
    counts = PartitionCounts(partition="0", granules=(second,), counts=(rows,)) if rows else None
    fields: dict[str, Any] = {
        "schema_version": 1,
        "job": "job",
        "stream": "stream",
        "query_id": "query",
        "run_id": "run",
        "batch_id": batch,
        "started_us": started_us,
        "duration_ms": 100,
        "operator": operator,
        "output_mode": "append",
        "bound_ms": 10_000,
        "generation": None,
        "late_watermark_ms": started_us // 1_000 - 20_000,
        "watermark_ms": started_us // 1_000 - 19_000,
        "late_base_ms": started_us // 1_000 - 9_000,
        "granule_us": SECOND_US,
        "closed": operator.closed,
        "rows": rows,
        "null_rows": 0,
        "min_event_time_us": second * SECOND_US if rows else None,
        "max_event_time_us": (second + 1) * SECOND_US - 1 if rows else None,
        "counts": GranuleCounts.of([] if counts is None else [counts]),
        "state_rows": 10,
        "state_bytes": 1_000,
        "dropped_by_spark": 0,
    }
    return Report(**{**fields, **changes})


ASKED = {"bound_ms": "5000", "partition": "0", "query_id": "query"}
"""What views are asked that need to know."""


def views(controller: Controller) -> Iterator[str]:
    """Yield the paths of all views of the test's stream and of the fleet."""
    of = {"{job}": "job", "{stream}": "stream", "{partition}": "0", "{query_id}": "query", "{batch_id}": "1"}
    for pattern, operations in DOCUMENT["paths"].items():
        path = pattern
        for name, value in of.items():
            path = path.replace(name, value)
        if "get" in operations and "{" not in path:
            needed = [
                each["name"] for each in operations["get"].get("parameters", []) if each.get("required")
            ]
            asked = "&".join(f"{name}={ASKED[name]}" for name in needed if name in ASKED)
            yield f"{path}?{asked}"


def all_answer(controller: Controller) -> None:
    """Check that streams are decided, and that every view answers."""
    controller.clock.now_us += 60 * SECOND_US
    assert controller.tick().failed == 0
    controller.snapshot()
    controller.service.ticker._upkeep.tick(controller.clock())
    alerts(controller)
    for path in views(controller):
        answer = controller.http.get(path)
        assert answer.status_code < 500, (path, answer.text)


def alerts(controller: Controller) -> list[str]:
    """Return the names of the alerts that are active, found as the notifier does: of all streams in one go."""
    now_us = controller.clock()
    with controller.service.database.read() as session:
        states, partitions = load_states(session), load_partitions(session)
        recent = load_recent_rows(session, WINDOWS_S, now_us)
    return [
        alert.alert.name
        for state in states
        for alert in active_alerts(
            state, partitions.get(state.id, ()), recent.get(state.id, NO_RECENT_ROWS), now_us
        )
    ]


@pytest.fixture
def stream(controller: Controller) -> Controller:
    """A controller of the test's stream and of another one that nothing is wrong with."""
    assert controller.put("/slo", {"target_ppm": 990_000}).is_success
    other = STREAM.replace("streams/stream", "streams/other")
    assert controller.http.put(other + "/slo", json={"target_ppm": 990_000}).is_success
    for each in query_reports(exponential_batches(20, 40), stream="other"):
        assert controller.http.post(other + "/reports", json=to_json_object(each)).is_success
    return controller


def decided(controller: Controller, name: str = "stream") -> bool:
    status = controller.http.get(STREAM.replace("streams/stream", f"streams/{name}")).json()
    return status["recommended"] is not None


@pytest.mark.slow
def test_three_reports_of_more_pairs_than_can_be_counted_are_refused_with_the_reason(
    stream: Controller,
) -> None:
    """They stopped the controller for everybody, also after each restart."""
    operator = sliding("40000 seconds", "1 second")
    for batch in range(3):
        answer = stream.report(report(batch, 2**40, operator))
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"] == [
            {
                "pointer": "/rows",
                "detail": "1,099,511,627,776 rows in 40,000 windows each are more than the 9,007,199,254,740,992 "
                "(row, window) pairs that can be counted exactly",
            }
        ]
    assert stream.tick().failed == 0
    assert decided(stream, "other")
    all_answer(stream)


def test_a_stream_takes_pairs_up_to_the_limit_and_is_decided_there(stream: Controller) -> None:
    """Three batches make 2^53 pairs; the next row is refused, and the job can begin anew."""
    operator = sliding("4096 seconds", "1 second")
    for batch, rows in enumerate((2**40, 2**39, 2**39)):
        assert stream.report(report(batch, rows, operator)).status_code == 201
    refused = stream.report(report(3, 1, operator))
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:tidemark:problem:too-many-pairs")
    assert "4,096 (row, window) pairs beside the 9,007,199,254,740,992 counted" in refused.json()["detail"]
    assert stream.status()["completeness"]["rows"] == MAX_COUNT
    all_answer(stream)
    assert decided(stream)


def test_rows_of_unknown_fate_count_to_the_limit_with_all_the_windows_that_they_may_be_in(
    stream: Controller,
) -> None:
    operator = sliding("50000 seconds", "1 second")
    unknown = {"contradiction": "the plan has no window"}
    assert stream.report(report(0, 2**37, operator, **unknown)).status_code == 201
    assert stream.report(report(1, 2**37, operator, **unknown)).status_code == 422
    all_answer(stream)


def test_a_row_in_more_windows_than_a_report_may_have_is_refused_whatever_it_counts(
    stream: Controller,
) -> None:
    answer = stream.report(report(0, 0, sliding("50001 seconds", "1 second")))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/operator"
    assert "a row is in up to 50,001 windows" in answer.json()["detail"]


# -- the ends of every range ---------------------------------------------------------------------------------------


def ranges(kind: type[Any]) -> dict[str, tuple[int, int]]:
    """Return the least and the greatest value of each whole number of a class that goes over the wire."""
    found = {}
    hints = typing.get_type_hints(kind, include_extras=True)
    for name in (each.name for each in dataclasses.fields(kind)):
        hint = hints[name]
        parts = [hint, *get_args(hint)] if get_origin(hint) is not Annotated else [hint]
        for part in parts:
            if get_origin(part) is Annotated and get_args(part)[0] is int:
                found[name] = _ends(part.__metadata__)
            elif part is int:
                found[name] = (-(2**63), 2**63)
    return found


def _ends(metadata: tuple[Any, ...]) -> tuple[int, int]:
    least, greatest = -(2**63), 2**63
    for each in metadata:
        if isinstance(each, Ge):
            least = typing.cast("int", each.ge)
        elif isinstance(each, Gt):
            least = typing.cast("int", each.gt) + 1
        elif isinstance(each, Lt):
            greatest = typing.cast("int", each.lt) - 1
        elif isinstance(each, Le):
            greatest = typing.cast("int", each.le)
    return least, greatest


WIRE = [Report, Acknowledgement, LiveState, AppendDelay, Downstream, Envelope, BoundAnswer]
WIRE += [TimeWindow, SessionWindow, LossCounts, LateCounts]


@pytest.mark.parametrize("kind", WIRE)
def test_every_number_on_the_wire_has_a_stated_range(kind: type[Any]) -> None:
    """What is beyond is refused with the range, and nothing within makes arithmetic fail."""
    for name, (least, greatest) in ranges(kind).items():
        if name == "schema_version":
            continue
        assert -MAX_TIME_US <= least <= greatest <= MAX_TIME_US, name


REPORT = {name: ends for name, ends in ranges(Report).items() if name not in {"schema_version", "granule_us"}}
ACKNOWLEDGEMENT = ranges(Acknowledgement)


def largest(kind: type[Any], of: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    return {name: greatest for name, (_, greatest) in of.items() if name in ranges(kind)}


def count(controller: Controller, changed: Report) -> None:
    """Count a report as if it had been sent and, if its times are far ahead, believed; refuse it as intake does."""
    body = json.dumps(to_json_object(changed)).encode()
    found = parse_report(body)
    check_report(found, found.job, found.stream)
    with controller.service.database.write() as session:
        take_report(session, found, controller.clock())
    controller.service.database.answers_changed()


@pytest.mark.slow
def test_the_largest_values_of_all_fields_at_once_leave_the_stream_decided_and_every_view_answers(
    stream: Controller,
) -> None:
    """``state_rows`` of 2^63 - 1 was taken, and the stream never decided again."""
    ends = largest(Report, REPORT)
    times = {name: ends[name] for name in ("started_us", "watermark_ms", "late_base_ms", "late_watermark_ms")}
    sizes = {name: value for name, value in ends.items() if name not in {*times, "rows", "null_rows"}}
    sizes = {name: value for name, value in sizes.items() if not name.endswith("event_time_us")}
    for batch in range(40):
        usual = report(batch, MAX_ROWS, SessionWindow(SECOND_US))
        count(stream, dataclasses.replace(usual, **sizes | {"batch_id": MAX_COUNT - 40 + batch}))
    acknowledged = Acknowledgement(
        query_id="query",
        run_id="run",
        source="controller",
        mode="OnRestart",
        **largest(Acknowledgement, ACKNOWLEDGEMENT),
    )
    assert stream.acknowledge(acknowledged).is_success
    all_answer(stream)
    assert decided(stream)
    second = MAX_TIME_US // SECOND_US - 100
    last = report(
        100,
        MAX_ROWS,
        RowLevel(),
        counts=GranuleCounts.of([PartitionCounts(partition="0", granules=(second,), counts=(MAX_ROWS,))]),
        min_event_time_us=-MAX_TIME_US,
        max_event_time_us=MAX_TIME_US,
        **sizes | times | {"batch_id": MAX_COUNT, "late_watermark_ms": -ends["late_watermark_ms"]},
    )
    count(stream, last)
    all_answer(stream)


def test_a_watermark_of_the_year_38000_keeps_no_other_streams_alert_from_being_notified(
    stream: Controller,
) -> None:
    """Dates end with the year 9999, and the alerts of all streams are found in one go."""
    marked = {"watermark_ms": MAX_TIME_US // 1_000, "late_base_ms": MAX_TIME_US // 1_000, "bound_ms": 0}
    for batch in range(2):
        count(stream, report(batch, 10, RowLevel(), **marked))
        stream.clock.now_us += 20 * 60 * SECOND_US
    later = {"started_us": stream.clock() - SECOND_US, "late_watermark_ms": 0}
    count(stream, report(2, 10, RowLevel(), **marked | later))
    assert "TidemarkWatermarkStandsStill" in alerts(stream)


OPERATORS = [RowLevel(), SessionWindow(MAX_TIME_US), SessionWindow(1), sliding("1 hour", "1 second")]
OPERATORS += [TimeWindow(MAX_TIME_US // SECOND_US * SECOND_US, MAX_TIME_US // SECOND_US * SECOND_US)]


@pytest.mark.long
@pytest.mark.slow
@settings(examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(OPERATORS),
            st.sampled_from([0, 1, MAX_ROWS]),
            st.fixed_dictionaries(
                {}, optional={name: st.sampled_from(ends) for name, ends in REPORT.items() if name != "rows"}
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_report_within_the_ranges_keeps_a_stream_from_being_decided_or_a_view_from_answering(
    stream: Controller, drawn: list[tuple[Operator, int, dict[str, int]]]
) -> None:
    """The ends of any fields together, counted with those before; whatever contradicts itself is refused."""
    for operator, rows, changes in drawn:
        try:
            batch = stream.status()["evidence"]["batches"] if stream.get().is_success else 0
            count(stream, report(batch + 1, rows, operator, **changes))
        except (TidemarkError, ValueError):
            continue
    all_answer(stream)
