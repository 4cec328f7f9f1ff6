"""Answers about the state of a stream: the conditions that hold, and the budget."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer
from tidemark.controller.view.state.condition_types import CONDITION_TYPES, ConditionType, Severity
from tidemark.models.specs.slo import Objective


class ConditionSummary(Answer):
    """A condition without its figures."""

    type: ConditionType
    """Which one."""
    severity: Severity
    """How grave it is."""
    title: str
    """A short name for people."""


class Condition(ConditionSummary):
    """Something about the stream that somebody should know; it is listed only while it holds."""

    detail: str
    """The figures, as a sentence."""


class Budget(Answer):
    """How much may be lost over the SLO's window, and how much is."""

    objective: Objective
    """What counts: rows, or windows that did not reach the target."""
    window_ms: int
    """The SLO's window, in milliseconds, back from the newest batch."""
    from_us: int
    """Trigger time of the first batch that counts, in microseconds since the epoch."""
    counted: int
    """(Row, key) pairs that arrived, or windows that the watermark has passed."""
    bad_min: int
    """How many of them were late, or did not reach the target, for sure."""
    bad_max: int
    """How many may have been, unjudged ones among them."""
    min_ppm: int | None
    """Minimum share that was good, in parts per million, rounded down; null when nothing counts."""
    max_ppm: int | None
    """Maximum share that was good; null when nothing counts."""
    allowed: int
    """How many may be bad of what is counted."""
    remaining_ppm: int | None
    """Minimum share of that which is left, in parts per million; negative when overdrawn, null when that is 0."""
    missing_batches: int
    """Batches never reported: how many rows they held is unknown."""
    provisional: bool
    """Whether rows can still come for windows (or minutes) that the watermark has not passed."""


_PLACES = {kind: place for place, kind in enumerate(CONDITION_TYPES)}


def condition(kind: ConditionType, detail: str) -> Condition:
    """Return a condition that holds, with its figures as a sentence."""
    its_type = CONDITION_TYPES[kind]
    return Condition(type=kind, severity=its_type.severity, title=its_type.title, detail=detail)


def summary_of(kind: ConditionType) -> ConditionSummary:
    """Return a condition without its figures."""
    its_type = CONDITION_TYPES[kind]
    return ConditionSummary(type=kind, severity=its_type.severity, title=its_type.title)


def place_of(summary: ConditionSummary) -> int:
    """Return the place of a condition among all types, 0 for the worst."""
    return _PLACES[summary.type]
