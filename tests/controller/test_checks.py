"""Checks of an acknowledgement: each of its times within the limits, and names that can be printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemark.controller.errors import InvalidBodyError
from tidemark.controller.intake.checks import MAX_DURATION_MS, MAX_TIME_US, check_acknowledgement
from tidemark.models.coupling import Chain
from tidemark.models.wire import Acknowledgement

ACK = Acknowledgement(
    query_id="query",
    run_id="run",
    bound_ms=7_000,
    generation=None,
    source="job",
    mode="OnRestart",
    applied_us=0,
)


@pytest.mark.parametrize(
    ("field", "limit"),
    [
        ("applied_us", MAX_TIME_US),
        ("bound_ms", MAX_DURATION_MS),
        ("ceiling_ms", MAX_DURATION_MS),
        ("chain/retention_ms", MAX_DURATION_MS),
        ("chain/horizon_ms", MAX_DURATION_MS),
        ("chain/others_ms", MAX_DURATION_MS),
    ],
)
def test_a_time_beyond_its_limit_is_refused_by_name_and_one_at_it_is_taken(field: str, limit: int) -> None:
    def acknowledged(value: int) -> Acknowledgement:
        of_chain = field.startswith("chain/")
        changes: dict[str, Any] = {field.removeprefix("chain/"): value}
        return replace(ACK, chain=replace(Chain(), **changes)) if of_chain else replace(ACK, **changes)

    check_acknowledgement(acknowledged(limit))
    with pytest.raises(InvalidBodyError) as refused:
        check_acknowledgement(acknowledged(limit + 1))
    assert [error.pointer for error in refused.value.errors] == [f"/{field}"]


@pytest.mark.parametrize("field", ["query_id", "run_id"])
def test_a_name_that_cannot_be_printed_is_refused(field: str) -> None:
    changes: dict[str, Any] = {field: "a\0b"}
    with pytest.raises(InvalidBodyError, match=f"/{field}: {field} has printable characters only"):
        check_acknowledgement(replace(ACK, **changes))


def test_every_reason_is_named_and_the_first_one_said() -> None:
    with pytest.raises(InvalidBodyError, match=r"further from 0 .* \(and 2 more\)") as refused:
        check_acknowledgement(replace(ACK, applied_us=-(2**62), query_id="\n", run_id="\n"))
    assert [error.pointer for error in refused.value.errors] == ["/applied_us", "/query_id", "/run_id"]
