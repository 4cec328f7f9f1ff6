"""Recommendations as the API answers them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy.orm import Session

from tidemark.controller.api import schemas
from tidemark.controller.api.units import milliseconds
from tidemark.controller.db.tables import PublishedRow, RecommendationRow
from tidemark.controller.decide.load import is_current
from tidemark.controller.decide.stored_steps import steps_of
from tidemark.models.recommend.steps import DecisionStep, because, deciding_step


def recommended_answer(
    session: Session, row: RecommendationRow | None, published: PublishedRow | None
) -> schemas.RecommendationAnswer | None:
    """Return a recommendation as it is answered; ``published`` is what is published to the job."""
    if row is None:
        return None
    is_published = (
        published is not None
        and published.mode != "Off"
        and published.pin is None
        and published.bound_ms == row.bound_ms
    )
    steps = steps_of(row)
    return schemas.RecommendationAnswer(
        bound_ms=row.bound_ms,
        generation=published.generation
        if is_published and published is not None and row.bound_ms is not None
        else None,
        decided_us=row.decided_us,
        current=is_current(session, row),
        because=because(steps),
        decided_by=deciding_step(steps).kind,
        steps=step_answers(steps),
    )


def step_answers(steps: Sequence[DecisionStep]) -> list[schemas.StepAnswer]:
    """Return the steps for an answer."""
    return [
        schemas.StepAnswer(kind=step.kind, name=step.kind.label, bound_ms=step.bound_ms, reason=step.reason)
        for step in steps
    ]


def transition_answer(row: RecommendationRow | None) -> schemas.TransitionAnswer | None:
    """Return what taking up a recommendation will do."""
    if row is None or row.transition is None:
        return None
    found = json.loads(row.transition)
    if "latency_unknown" not in found:
        # An earlier release did not separate what was measured from what was not.
        found |= {"latency_wall_us": None, "latency_at_least_us": None, "latency_unknown": "NoWindows"}
    for name in ("from_bound", "bound", "stands_still", "latency_base", "latency_wall", "latency_at_least"):
        found[f"{name}_ms"] = milliseconds(found.pop(f"{name}_us"))
    return schemas.TransitionAnswer.model_validate(found, extra="ignore")
