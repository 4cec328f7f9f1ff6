"""Rollouts and facts about them, for the tests of the state machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from tidemark.models.recommend.promise import NOTHING_PROMISED, Promise
from tidemark.models.rollout.machine import advance
from tidemark.models.rollout.states import (
    CANDIDATE,
    NOTHING_JUDGED,
    Approved,
    Move,
    Rollout,
    RolloutFacts,
    State,
)
from tidemark.models.specs.slo import Policy, Slo

HOUR_US = 3_600_000_000
NOW_US = 1_767_225_600_000_000
"""Thursday 2026-01-01, 00:00 UTC."""
APPROVED = Approved(at_us=NOW_US, by="ada", reason="agreed")
SLO = Slo(target_ppm=990_000)
STATES: tuple[State, ...] = get_args(State)


def rollout(state: State = "Recommended", **changes: Any) -> Rollout:
    fields: dict[str, Any] = {
        "state": state,
        "cause": "Decision",
        "direction": "Narrow",
        "first": False,
        "mode": "OnRestart",
        "to_bound_ms": 20_000,
        "changed_us": NOW_US,
        "needed_rows": 1_000,
        "predicted": promise(991_000),
    }
    if state not in CANDIDATE:
        fields["published_us"] = NOW_US
    return Rollout(**{**fields, **changes})


def promise(min_ppm: int | None) -> Promise:
    """Return a prediction of which only the lower end of the completeness is known."""
    return replace(NOTHING_PROMISED, min_ppm=min_ppm)


def facts(**changes: Any) -> RolloutFacts:
    known: dict[str, Any] = {"policy": policy(), "slo": SLO, "last_contact_us": NOW_US, **changes}
    # By default all judged rows were at risk.
    return RolloutFacts(**{"at_risk": known.get("judged", NOTHING_JUDGED), **known})


def policy(**changes: Any) -> Policy:
    return Policy(**{"mode": "OnRestart", "approval": "none", **changes})


def moved(one: Rollout, known: RolloutFacts, now_us: int = NOW_US) -> Move:
    move = advance(one, known, now_us)
    assert move is not None
    return move
