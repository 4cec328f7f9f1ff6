"""What holds for a stream now, and what it waits for, as one sentence. Pure.

It is made anew for each answer: what was said of a bound when it was recommended or published is past by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidemark.controller.base.db.tables import RolloutRow
from tidemark.controller.view.state.answers import Condition
from tidemark.controller.view.state.condition_types import ConditionType
from tidemark.controller.view.state.state import StreamState
from tidemark.models.base.duration import format_duration
from tidemark.models.recommend.promise import ProvisionalBound
from tidemark.models.recommend.steps import StepKind, because, deciding_step
from tidemark.models.rollout.states import CANDIDATE, UNDER_WAY

_NOTHING_GOES_ON: Final[tuple[ConditionType, ...]] = (
    "NoReportYet",
    "NoSlo",
    "Pinned",
    "Paused",
    "NoRecentReport",
    "ConstraintsConflict",
)
"""Conditions that say by themselves why a bound stays, the first that counts first."""

_REQUIRED = frozenset({StepKind.QUANTILE, StepKind.JOIN})
"""Steps that say what the rows need; all others hold it back or change it."""


def summary_of(
    state: StreamState, conditions: Sequence[Condition], bound: ProvisionalBound | None = None
) -> str:
    """Return the sentence about a stream.

    Args:
        bound: the estimate of the bound that it needs, while too little is known to act on it.
    """
    holding = {condition.type: condition for condition in conditions}
    for kind in _NOTHING_GOES_ON:
        if kind in holding:
            return holding[kind].detail
    worst = next(iter(conditions), None)
    if worst is not None and worst.severity == "critical" and worst.type != "TargetMissed":
        return worst.detail
    rollout = state.rollout
    # In Live the driver decides each move, so that a rollout is of note only where a person has to act.
    steered = state.mode == "Live" and state.live is not None
    if rollout is not None and rollout.state in ({"AwaitingApproval"} if steered else CANDIDATE | UNDER_WAY):
        # What is held for lack of evidence is what the estimate is about.
        if bound is None or rollout.held_by != "Evidence":
            return _rollout(rollout)
    elif steered and state.live is not None:
        return state.live.reason
    if bound is not None:
        return bound.text
    return _recommended(state)


def _rollout(rollout: RolloutRow) -> str:
    to = "the job's own bound" if rollout.to_bound_ms is None else _bound(rollout.to_bound_ms)
    change = f"{'narrowing' if rollout.direction == 'Narrow' else 'widening'} to {to}"
    if rollout.state in UNDER_WAY:
        return f"{change} is under way: {rollout.reason.removeprefix('published: ')}"
    return f"{change} is {rollout.reason if rollout.reason.startswith('held') else f'held: {rollout.reason}'}"


def _recommended(state: StreamState) -> str:
    if state.recommendation is None:
        return "no report has been weighed against the SLO yet, so nothing is recommended"
    why, bound_ms = because(state.steps), state.recommendation.bound_ms
    if bound_ms is None:
        return f"the bound in use stays: {why}"
    in_use_ms = None if state.newest is None else state.newest.report.bound_ms
    if bound_ms != in_use_ms:
        unchanged = "in mode Off nothing is changed; " if state.mode == "Off" else ""
        return f"{_bound(bound_ms)} is recommended: {unchanged}{why}"
    verdict = "is the recommended one" if deciding_step(state.steps).kind in _REQUIRED else "stays"
    return f"the bound in use, {_bound(bound_ms)}, {verdict}: {why}"


def _bound(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)
