"""The steps of a recommendation as the store has them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tidemark.controller.db.tables import RecommendationRow, ShadowRow
from tidemark.models.base.read_json import read_object
from tidemark.models.recommend.steps import Cap, Conflict, DecisionStep, StepKind, because

_CAPS: dict[StepKind, Cap] = {StepKind.LATENCY_CAP: "latency", StepKind.STATE_CAP: "state"}


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


def steps_of(row: RecommendationRow | ShadowRow) -> list[DecisionStep]:
    """Return the stored steps, first to last, whichever release wrote it."""
    return [_read(step) for step in json.loads(row.steps)]


def _read(stored: Any) -> DecisionStep:
    if isinstance(stored, list):
        # Earlier releases wrote [label, bound_ms, reason] and, later, [..., kind, the bound that exceeds the cap].
        label, bound_ms, reason, *more = stored
        kind = StepKind.of_label(label)
        exceeding_ms = more[1] if more else None
        conflict = None if exceeding_ms is None else Conflict(_CAPS[kind], exceeding_ms)
        return DecisionStep(kind, bound_ms, reason, conflict)
    conflict = None if stored["conflict"] is None else read_object(Conflict, stored["conflict"])
    return DecisionStep(StepKind(stored["kind"]), stored["bound_ms"], stored["reason"], conflict)


def because_of(row: RecommendationRow) -> str:
    """Return what decided the bound, as one sentence."""
    return because(steps_of(row))
