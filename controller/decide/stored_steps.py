"""The chain of reasons of a recommendation, as stored."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tidemark.controller.db.tables import RecommendationRow
from tidemark.models.recommendation import Step

__all__ = ["reason_of", "steps_json", "steps_of"]


def steps_json(steps: Iterable[Step]) -> str:
    """Return a chain as JSON: ``[[name, bound_ms, reason, kind, crosses_ms], ...]``."""
    return json.dumps([[step.name, step.bound_ms, step.reason, step.kind, step.crosses_ms] for step in steps])


def steps_of(row: RecommendationRow) -> list[Step]:
    """Return the stored chain, first to last. Steps from earlier releases have no kind and no crossed cap."""
    return [Step(*step) for step in json.loads(row.steps)]


def reason_of(row: RecommendationRow) -> str:
    """Return the whole chain as one sentence."""
    return "; ".join(step.reason for step in steps_of(row))
