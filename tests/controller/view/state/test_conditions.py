"""Conditions as functions of a stream's state, without a store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemark.controller.base.db.tables import RolloutRow
from tidemark.controller.reports.live import NewestState
from tidemark.controller.view.state.conditions import conditions_of
from tidemark.models.live.kept import KeptLive
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.rollout.states import State
from tidemark.models.specs.pin import PinScope, StoredPin
from tidemark.models.specs.slo import FreezeWindow

from support.stream_states import NOW_US, stream_state

PIN = StoredPin.on(PinScope("shop"), "Off", "INC-1", NOW_US)
LIVE = KeptLive(
    ceiling_ms=60_000,
    control_ms=None,
    reason="",
    behind=(),
    behind_partitions=0,
    idle=(),
    idle_partitions=0,
    ceiling_used_ppm=900_000,
    last_contact_us=NOW_US,
    pin=None,
)


def types(**changes: Any) -> list[str]:
    return [found.type for found in conditions_of(stream_state(**changes), None, NOW_US)]


def rollout(state: State) -> RolloutRow:
    return RolloutRow(id=7, state=state, reason="why", missed_us=None, changed_us=NOW_US)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"registered_us": None, "newest": None}, ["NoReportYet"]),
        ({"target_ppm": None}, ["NoSlo"]),
        ({"driver": NewestState(contradiction="a join")}, ["OperatorContradicted"]),
        ({"conflict": True}, ["ConstraintsConflict"]),
        ({"recommended_bound_ms": None}, ["NotEnoughEvidence"]),
        ({"generation": 2, "published_bound_ms": 5_000}, ["WaitsForStart"]),
        ({"generation": 2, "published_bound_ms": 5_000, "mode": "Restart"}, ["BoundNotAcknowledged"]),
        ({"generation": 2, "published_bound_ms": 5_000, "paused": True}, ["Paused"]),
        ({"generation": 2, "published_bound_ms": 5_000, "pin": PIN}, ["Pinned"]),
        ({"rollout": rollout("Effective")}, ["Rolling"]),
        ({"rollout": rollout("AwaitingApproval")}, ["RolloutHeld"]),
        ({"rollout": rollout("RolledBack")}, ["RolledBack"]),
        ({"rollout": rollout("Verified")}, []),
        ({"missed": rollout("Verified")}, ["TargetMissed"]),
        ({"driver": NewestState(live=LIVE)}, ["CeilingNear"]),
        ({"driver": NewestState(live=replace(LIVE, failure="why"))}, ["LiveFailed"]),
        (
            {"downstream": Downstream(state_unforeseen="Spark never forgets a key", state_grows=True)},
            ["StateGrows"],
        ),
        ({"downstream": Downstream(state_unforeseen="2 operators keep rows")}, []),
        ({"mode": "Live"}, ["LiveWithoutCeiling"]),
        ({"mode": "Live", "ceiling_ms": 9_000}, ["SkewBeyondCeiling"]),
        ({"mode": "Live", "ceiling_ms": 60_000}, []),
    ],
)
def test_each_condition_follows_from_the_state(changes: dict[str, Any], expected: list[str]) -> None:
    assert types(**changes) == expected


def test_the_worst_condition_comes_first() -> None:
    many = {"target_ppm": None, "pin": PIN, "missed": rollout("Verified"), "rollout": rollout("RolledBack")}
    assert types(**many) == ["TargetMissed", "RolledBack", "Pinned", "NoSlo"]


def test_a_freeze_that_holds_is_said_with_its_end_and_not_in_mode_off() -> None:
    """2026-01-01 was a Thursday, and NOW_US is its first microsecond."""
    freeze = (FreezeWindow(days=("Thu",), from_minute=0, to_minute=90),)
    (found,) = conditions_of(stream_state(freeze_windows=freeze), None, NOW_US)
    assert found.type == "NarrowingFrozen"
    assert found.detail.endswith("nothing is narrowed until 2026-01-01 01:30:00 UTC")
    over_us = NOW_US + 90 * 60_000_000
    assert conditions_of(stream_state(freeze_windows=freeze), None, over_us) == []
    assert types(freeze_windows=freeze, mode="Off") == []
