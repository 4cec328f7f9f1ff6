"""Stored reasons chains: written and read back, and read as earlier releases wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidemark.controller.bounds.recommendations import steps_json, steps_of
from tidemark.controller.db.tables import RecommendationRow
from tidemark.models.recommend.steps import Conflict, DecisionStep, StepKind

CHAIN = [
    DecisionStep(StepKind.QUANTILE, 990, "996 of 1,000 rows"),
    DecisionStep(StepKind.ROUND_UP, 996, "3 digits"),
    DecisionStep(StepKind.LATENCY_CAP, None, "above the cap", Conflict("latency", 996)),
]


def test_a_chain_is_read_as_it_was_written() -> None:
    assert steps_of(RecommendationRow(steps=steps_json(CHAIN))) == CHAIN


@pytest.mark.parametrize(
    ("stored", "chain"),
    [
        pytest.param(
            [["round up", 996, "3 digits"], ["latency cap", None, "above the cap"]],
            [CHAIN[1], DecisionStep(StepKind.LATENCY_CAP, None, "above the cap")],
            id="labels only",
        ),
        pytest.param(
            [
                ["quantile", 990, "996 of 1,000 rows", None, None],
                ["round up", 996, "3 digits", "Asked", None],
                ["latency cap", None, "above the cap", "LatencyCap", 996],
            ],
            CHAIN,
            id="labels, some kinds and the bound above the cap",
        ),
    ],
)
def test_chains_of_earlier_releases_are_read(stored: list[Any], chain: list[DecisionStep]) -> None:
    assert steps_of(RecommendationRow(steps=json.dumps(stored))) == chain
