"""Checks of an acknowledgement beyond the ranges of its fields: names that can be printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemark.controller.base.errors import InvalidBodyError
from tidemark.controller.reports.checks import check_acknowledgement
from tidemark.models.protocol.messages import Acknowledgement

ACK = Acknowledgement(
    query_id="query",
    run_id="run",
    bound_ms=7_000,
    generation=None,
    source="job",
    mode="OnRestart",
    applied_us=0,
)


@pytest.mark.parametrize("field", ["query_id", "run_id"])
def test_a_name_that_cannot_be_printed_is_refused(field: str) -> None:
    changes: dict[str, Any] = {field: "a\0b"}
    with pytest.raises(InvalidBodyError, match=f"/{field}: {field} has printable characters only"):
        check_acknowledgement(replace(ACK, **changes))


def test_every_reason_is_named_and_the_first_one_said() -> None:
    with pytest.raises(InvalidBodyError, match=r"query_id has printable .* \(and 1 more\)") as refused:
        check_acknowledgement(replace(ACK, query_id="\n", run_id="\n"))
    assert [error.pointer for error in refused.value.errors] == ["/query_id", "/run_id"]
