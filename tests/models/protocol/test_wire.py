"""The wire types: what they refuse on their own, and what strict validation makes of their JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tidemark.models.base.operators import Operator, RowLevel, SessionWindow, TimeWindow, tumbling
from tidemark.models.protocol.granule_counts import GranuleCounts, PartitionCounts
from tidemark.models.protocol.messages import (
    Acknowledgement,
    BoundAnswer,
    Report,
    read_bound_answer,
    read_report,
    to_json_object,
)
from tidemark.models.specs.slo import Policy, Slo

from support.streams import operators, report_of

rows = st.lists(st.tuples(st.sampled_from(["", "0", "Zürich"]), st.integers(-30_000, 30_000)), max_size=20)

ACKNOWLEDGEMENT = Acknowledgement(
    query_id="query", run_id="run", bound_ms=0, generation=None, source="disk", mode="Off", applied_us=-1
)
ANSWER = BoundAnswer(job="j", stream="s", mode="OnRestart", generation=3, bound_ms=1_500, reason="because")
REPORTS = TypeAdapter(Report)
REPORT = report_of([("p", 5), ("p", 12_000), ("q", 5)], tumbling("10s"), late_watermark_ms=0)


@given(operators(1_000), rows, st.none() | st.integers(-10, 10**15))
def test_a_report_is_the_same_after_the_wire(
    operator: Operator, batch: list[tuple[str, int]], watermark_ms: int | None
) -> None:
    """With every operator, in pydantic's strict mode and in a driver: nothing is rounded, renamed or converted."""
    report = report_of(batch, operator, late_watermark_ms=watermark_ms, null_rows=2, rows=len(batch) + 2)
    text = json.dumps(to_json_object(report))
    received = REPORTS.validate_json(text)
    assert received == read_report(json.loads(text)) == report
    assert type(received.operator) is type(operator)


@pytest.mark.parametrize("value", [ACKNOWLEDGEMENT, ANSWER])
def test_acknowledgements_and_answers_are_the_same_after_the_wire(
    value: Acknowledgement | BoundAnswer,
) -> None:
    """As reports are."""
    assert TypeAdapter(type(value)).validate_json(json.dumps(to_json_object(value))) == value


@pytest.mark.parametrize(
    "answer", [ANSWER, dataclasses.replace(ANSWER, bound_ms=None, mode="Off", generation=0)]
)
def test_a_driver_reads_a_bound_without_pydantic(answer: BoundAnswer) -> None:
    """From the wire and from disk."""
    assert read_bound_answer(json.loads(json.dumps(to_json_object(answer)))) == answer


@pytest.mark.parametrize(
    "changes",
    [
        {"bound_ms": -1},
        {"bound_ms": 1.5},
        {"bound_ms": "5"},
        {"bound_ms": True},
        {"generation": None},
        {"generation": -1},
        {"generation": -1, "bound_ms": None},
        {"mode": None},
        {"pin": 1},
    ],
)
def test_a_driver_acts_on_no_bound_that_it_does_not_understand(changes: dict[str, Any]) -> None:
    """A file may be damaged: the job then keeps its own bound."""
    with pytest.raises(ValueError, match="bound"):
        read_bound_answer({**to_json_object(ANSWER), **changes})


@pytest.mark.parametrize("value", [None, [], "1500", 1_500, {}])
def test_what_is_no_answer_at_all_is_rejected(value: object) -> None:
    """Half a file, or another one."""
    with pytest.raises(ValueError, match="BoundAnswer"):
        read_bound_answer(value)


@pytest.mark.parametrize(
    "value",
    [
        Slo(target_ppm=995_000),
        Slo(target_ppm=1, latency_cap_ms=5, on_conflict="exceed_latency_cap"),
        Policy(mode="OnRestart"),
    ],
)
def test_what_an_sre_asks_for_is_the_same_after_the_wire(value: Slo | Policy) -> None:
    """The SLO that is judged is the one that was set."""
    assert TypeAdapter(type(value)).validate_json(json.dumps(dataclasses.asdict(value))) == value


def changed(path: tuple[str | int, ...], value: Any) -> str:
    """Return the JSON of ``REPORT`` with one place set to ``value``."""
    document = json.loads(json.dumps(to_json_object(REPORT)))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("operator",), {"kind": "window", "size_us": 10_000, "slide_us": 20_000}),
        (("operator",), {"kind": "session", "gap_us": 0}),
        (("operator",), {"kind": "session", "gap_us": 5.0}),
        (("operator", "size_us"), "10000000"),
        (("operator", "size_us"), 10_000_000.0),
        (("schema_version",), 2),
        (("rows",), 3.0),
        (("rows",), "3"),
        (("rows",), -1),
        (("rows",), True),
        (("job",), ""),
        (("output_mode",), "Append"),
        (("closed",), "both"),
        (("granule_us",), 999),
        (("batch_id",), 2**63),
        (("counts", "rows", 0), 0),
        (("counts", "rows", 0), 1.5),
        (("counts", "granules", 1), 0),
        (("counts", "sizes", 0), 1),
        (("counts", "future_rows", 0), -1),
    ],
)
def test_what_a_report_must_not_hold_is_rejected_where_it_stands(
    path: tuple[str | int, ...], value: Any
) -> None:
    """Conversions and nonsense."""
    with pytest.raises(ValidationError) as refused:
        REPORTS.validate_json(changed(path, value))
    assert any(error["loc"][0] == path[0] for error in refused.value.errors())


def test_a_missing_field_is_rejected() -> None:
    """A report without a watermark is not a report with watermark 0."""
    document = to_json_object(REPORT)
    del document["late_watermark_ms"]
    with pytest.raises(ValidationError, match="late_watermark_ms"):
        REPORTS.validate_json(json.dumps(document))


# -- what the constructors refuse, in the driver too ---------------------------------------------------------


def test_granules_and_counts_that_do_not_pair_up_are_rejected() -> None:
    """The message names the partition."""
    with pytest.raises(ValueError, match="partition 'p': 2 granules but 1 counts"):
        PartitionCounts(partition="p", granules=(1, 2), counts=(1,))


@pytest.mark.parametrize("granules", [(2, 1), (1, 1)])
def test_granules_that_are_not_ascending_and_distinct_are_rejected(granules: tuple[int, int]) -> None:
    """A granule given twice has been added up wrongly somewhere."""
    with pytest.raises(ValueError, match="partition 'p': granules must be ascending and distinct"):
        PartitionCounts(partition="p", granules=granules, counts=(1, 1))


def test_a_partition_given_twice_is_rejected() -> None:
    """The ledger books by partition: the second would take the place of the first."""
    twice = PartitionCounts(partition="p", granules=(1,), counts=(1,))
    with pytest.raises(ValueError, match="partitions: 'p' is given more than once"):
        GranuleCounts.of((twice, twice))


def test_more_counted_rows_than_rows_are_rejected() -> None:
    """They would make a negative number of unjudged rows, which hides real ones of other batches."""
    with pytest.raises(ValueError, match="rows 2: partitions count 3 rows, and 0 have no event time"):
        dataclasses.replace(REPORT, rows=2)
    with pytest.raises(ValueError, match="rows 3: partitions count 3 rows, and 1 have no event time"):
        dataclasses.replace(REPORT, null_rows=1)


@pytest.mark.parametrize(
    ("operator", "changes"),
    [
        (tumbling("10s"), {"granule_us": 3_000_000}),
        (TimeWindow(10_000_000, 10_000_000, 1_000_000), {"granule_us": 2_000_000}),
        (tumbling("10s"), {"closed": "right"}),
        (RowLevel(), {"closed": "left"}),
        (SessionWindow(5), {"closed": "left"}),
    ],
)
def test_granules_that_cannot_be_judged_exactly_are_rejected(
    operator: Operator, changes: dict[str, Any]
) -> None:
    """A granule across two windows would be booked on one of them, and called exact."""
    with pytest.raises(ValueError, match="granules of a"):
        report_of([], operator, late_watermark_ms=0, **changes)


def test_uncounted_rows_are_those_with_a_time_that_no_granule_holds() -> None:
    """What the top-k lost."""
    report = report_of([("p", 5)], RowLevel(), late_watermark_ms=0, rows=10, null_rows=2)
    assert (report.counted_rows, report.uncounted_rows) == (1, 7)


def test_a_policy_with_an_empty_range_is_rejected() -> None:
    """No bound could be recommended, in silence."""
    with pytest.raises(ValueError, match="max_bound_ms, 4 ms, is below min_bound_ms, 5 ms"):
        Policy(min_bound_ms=5, max_bound_ms=4)


# -- reports that a driver reads without pydantic -------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        None,
        {"schema_version": 3},
        {"operator": {"kind": "a new one"}},
        {"operator": None},
        {"counts": {"partitions": []}},
        {"counts": {}},
        {"live": {"ceiling_ms": 1}},
        {"granule_us": 7},
    ],
)
def test_what_this_release_cannot_read_is_a_value_error(changed: dict[str, Any] | None) -> None:
    value = json.loads(json.dumps(to_json_object(REPORT)))
    with pytest.raises(ValueError, match=r"."):
        read_report(changed if changed is None else value | changed)
