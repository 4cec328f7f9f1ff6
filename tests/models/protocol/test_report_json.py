"""Reports from JSON, read without a validation library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling
from tidemark.models.protocol.messages import Report, read_report, to_json_object

from support.streams import SECOND, report_of

OPERATORS = (tumbling("10 s"), sliding("10 s", "5 s", "1 s"), session("7 s"), row_level())


def over_the_wire(report: Report) -> Any:
    return json.loads(json.dumps(to_json_object(report)))


@given(
    operator=st.sampled_from(OPERATORS),
    rows=st.lists(st.tuples(st.sampled_from("abü"), st.integers(0, 10**9)), max_size=20),
)
def test_a_report_that_went_over_the_wire_is_the_same_report(
    operator: Operator, rows: list[tuple[str, int]]
) -> None:
    report = report_of(rows, operator, late_watermark_ms=None, granule_us=SECOND)
    assert read_report(over_the_wire(report)) == report


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
    report = report_of([("a", 5)], OPERATORS[0], late_watermark_ms=None, granule_us=SECOND)
    value = over_the_wire(report)
    with pytest.raises(ValueError, match=r"."):
        read_report(changed if changed is None else value | changed)
