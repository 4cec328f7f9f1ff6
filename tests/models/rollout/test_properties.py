"""Properties of the state machine that hold for any rollout and any facts."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.defaults import LISTENING_MS
from tidemark.models.rollout.evidence import EvidenceSpan, Judged
from tidemark.models.rollout.gate import DAY_US, at_gate, frozen_until_us
from tidemark.models.rollout.machine import advance, restores_previous
from tidemark.models.rollout.states import (
    CANDIDATE,
    OPEN,
    TRANSITIONS,
    UNDER_WAY,
    Cause,
    Failure,
    GateAnswer,
    Phase,
    Rollout,
    RolloutFacts,
    Verdict,
)
from tidemark.models.specs.slo import Approval, Day, Direction, FreezeWindow, Policy, Slo

from support.examples import examples
from support.rollouts import APPROVED, NOW_US, STATES, moved, promise

pytestmark = pytest.mark.slow

times = st.integers(NOW_US - 40 * DAY_US, NOW_US + 40 * DAY_US)
maybe_time = st.none() | times
freezes = st.lists(
    st.builds(
        FreezeWindow,
        days=st.lists(st.sampled_from(get_args(Day)), min_size=1, max_size=7, unique=True).map(tuple),
        from_minute=st.integers(0, 700),
        to_minute=st.integers(701, 1_440),
    ),
    max_size=3,
).map(tuple)
policies = st.builds(
    Policy,
    mode=st.sampled_from(["OnRestart", "Restart", "Live"]),
    cooldown_ms=st.integers(0, 2 * 86_400_000),
    max_narrowings_a_day=st.none() | st.integers(1, 3),
    freeze_windows=freezes,
    paused=st.booleans(),
    approval=st.sampled_from(get_args(Approval)),
    gates=st.sampled_from([(), ("a",), ("a", "b")]),
)
failures = st.lists(
    st.builds(
        Failure,
        direction=st.sampled_from(get_args(Direction)),
        bound_ms=st.integers(0, 50_000),
        until_us=times,
        why=st.just("it failed"),
    ),
    max_size=3,
).map(tuple)
judgements = st.tuples(st.integers(0, 3_000), st.integers(0, 3_000), st.integers(0, 3_000)).map(
    lambda drawn: Judged(drawn[0], min(drawn[:2]), max(min(drawn[:2]), min(drawn[0], drawn[2])))
)
answers = st.lists(
    st.builds(
        GateAnswer,
        gate=st.sampled_from("ab"),
        phase=st.sampled_from(get_args(Phase)),
        bound_ms=st.integers(0, 50_000),
        verdict=st.sampled_from(get_args(Verdict)),
        said=st.just("200"),
        at_us=times,
        failures=st.integers(0, 4),
    ),
    max_size=2,
    unique_by=lambda answer: answer.gate,
).map(tuple)
all_facts = st.builds(
    RolloutFacts,
    policy=policies,
    slo=st.builds(
        Slo,
        target_ppm=st.integers(900_000, 999_000),
        latency_cap_ms=st.none() | st.integers(0, 9),
        state_cap_rows=st.none() | st.integers(0, 9),
        on_conflict=st.sampled_from([None, "miss_target", "exceed_latency_cap", "exceed_state_cap"]),
    ),
    pinned=st.none() | st.just("by the pin: INC-1"),
    last_contact_us=maybe_time,
    unanswered_us=maybe_time,
    failures=failures,
    narrowed_us=st.lists(times, max_size=4).map(lambda found: tuple(sorted(found))),
    evidence=st.none()
    | st.builds(
        EvidenceSpan,
        covered_us=st.integers(0, 9),
        needed_us=st.integers(1, 9),
        reached_us=times,
        why=st.just(""),
    ),
    published_before=st.booleans(),
    at_risk=judgements,
    event_us=st.integers(0, 20_000),
    fleet_narrowing=st.integers(0, 3),
    fleet_max=st.integers(1, 3),
    published_ms=st.none() | st.integers(0, 50_000),
    gate_answers=answers,
    acknowledged_us=maybe_time,
    effective_us=maybe_time,
    judged=judgements,
    latency_us=st.none() | st.floats(0, 20_000),
    state_rows=st.none() | st.integers(0, 20),
)
all_rollouts = st.builds(
    Rollout,
    state=st.sampled_from(STATES),
    cause=st.sampled_from(get_args(Cause)),
    direction=st.sampled_from(get_args(Direction)),
    first=st.booleans(),
    mode=st.sampled_from(["OnRestart", "Restart", "Live"]),
    to_bound_ms=st.none() | st.integers(0, 50_000),
    changed_us=times,
    approved=st.none() | st.just(APPROVED),
    published_us=maybe_time,
    acknowledged_us=maybe_time,
    needed_rows=st.integers(0, 2_000),
    needed_event_ms=st.integers(0, 10),
    missed_us=maybe_time,
    predicted=st.builds(promise, st.none() | st.integers(900_000, 1_000_000)),
)


@examples(300)
@given(one=all_rollouts, known=all_facts, now_us=times)
def test_only_legal_moves_are_made_and_each_has_a_reason(
    one: Rollout, known: RolloutFacts, now_us: int
) -> None:
    move = advance(one, known, now_us)
    if move is None:
        assert one.state not in OPEN
        return
    assert one.state in OPEN | {"Verified"}
    assert move.reason
    assert move.state == one.state or move.state in TRANSITIONS[one.state]
    assert (move.failure is not None) == (move.state == "RolledBack") or one.state == "Verified"
    # Something is published only by publishing or undoing.
    if restores_previous(one.state, move, one):
        assert one.state in UNDER_WAY | {"Verified"}
    if move.state == "Verified" and one.state == "Effective":
        assert known.at_risk.rows >= one.needed_rows
        assert known.event_us >= one.needed_event_ms * 1_000
    if one.state == "Verified" and move.state == "RolledBack":
        assert one.direction == "Narrow"


@examples(300)
@given(one=all_rollouts.filter(lambda one: one.state in CANDIDATE), known=all_facts, now_us=times)
def test_nothing_is_published_while_a_gate_holds(one: Rollout, known: RolloutFacts, now_us: int) -> None:
    move = moved(one, known, now_us)
    if move.state == "Published":
        assert at_gate(one, known, now_us) is None
        assert known.pinned is None
        assert one.cause == "Operator" or not known.policy.paused
        if one.cause == "Decision":
            assert (
                one.approved
                or known.policy.approval == "none"
                or (known.policy.approval == "first" and known.published_before)
                or (known.policy.approval == "narrow" and one.direction == "Widen")
            )
            assert known.last_contact_us is not None
            assert now_us - known.last_contact_us <= LISTENING_MS * 1_000
            if one.direction == "Narrow":
                assert one.approved or known.evidence is None or known.evidence.enough
                assert frozen_until_us(known.policy.freeze_windows, now_us) is None
    else:
        assert move.gate is not None or move.state == "Expired"


@examples(200)
@given(one=all_rollouts, known=all_facts, now_us=times)
def test_a_widening_never_waits_for_a_gate_that_slows_narrowing(
    one: Rollout, known: RolloutFacts, now_us: int
) -> None:
    widening = replace(one, direction="Widen")
    free = replace(
        known,
        evidence=None,
        narrowed_us=(),
        fleet_narrowing=0,
        policy=replace(known.policy, cooldown_ms=0, max_narrowings_a_day=None, freeze_windows=(), gates=()),
    )
    assert advance(widening, known, now_us) == advance(widening, free, now_us)
