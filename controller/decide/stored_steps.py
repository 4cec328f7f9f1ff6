"""The steps of a recommendation as the store has them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tidemark.controller.db.tables import RecommendationRow
from tidemark.models.base.read_json import read_object
from tidemark.models.recommend.steps import Conflict, DecisionStep, StepKind, because


def steps_json(steps: Iterable[DecisionStep]) -> str:
    """Return the steps as JSON: a list of objects with the fields of ``DecisionStep``."""
    return json.dumps(
        [
            {
                "kind": step.kind,
                "bound_ms": step.bound_ms,
                "reason": step.reason,
                "conflict": None if step.conflict is None else asdict(step.conflict),
            }
            for step in steps
        ]
    )


def steps_of(row: RecommendationRow) -> list[DecisionStep]:
    """Return the stored chain, first to last."""
    return [_read(step) for step in json.loads(row.steps)]


def _read(stored: Any) -> DecisionStep:
    conflict = None if stored["conflict"] is None else read_object(Conflict, stored["conflict"])
    return DecisionStep(StepKind(stored["kind"]), stored["bound_ms"], stored["reason"], conflict)


def because_of(row: RecommendationRow) -> str:
    """Return what decided the bound, as one sentence."""
    return because(steps_of(row))
