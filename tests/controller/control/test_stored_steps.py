"""Stored reasons chains: written and read back."""

from __future__ import annotations

from tidemark.controller.base.db.tables.columns import AsJson
from tidemark.models.recommend.steps import Conflict, DecisionStep, StepKind

CHAIN = (
    DecisionStep(StepKind.QUANTILE, 990, "996 of 1,000 rows"),
    DecisionStep(StepKind.ROUND_UP, 996, "3 digits"),
    DecisionStep(StepKind.LATENCY_CAP, None, "above the cap", Conflict("latency", 996)),
)


def test_a_chain_is_read_as_it_was_written() -> None:
    column = AsJson[DecisionStep](DecisionStep)
    found = column.process_result_value(column.process_bind_param(CHAIN, None), None)
    assert found == CHAIN
    assert [step.kind.label for step in found] == ["quantile", "round up", "latency cap"]
