"""Outside gates: what their answers hold, delay and undo, and what they have no say about."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.models.base.defaults import GATE_ASK_MS, GATE_FAILURES, GATE_VALID_MS
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.gate import at_outside_gate, counted_after, due
from tidemark.models.rollout.states import GateAnswer, Phase, RolloutFacts

from support.rollouts import APPROVED, NOW_US, facts, moved, policy, rollout

GATES = policy(gates=("calendar", "errors"))


def answer(gate: str = "calendar", phase: Phase = "publish", **changes: Any) -> GateAnswer:
    fields: dict[str, Any] = {"verdict": "yes", "said": "200", "bound_ms": 20_000, "failures": 0}
    return GateAnswer(gate=gate, phase=phase, at_us=NOW_US, **{**fields, **changes})


def asked(*answers: GateAnswer, **changes: Any) -> RolloutFacts:
    return facts(policy=GATES, gate_answers=answers, **changes)


def verifying(*answers: GateAnswer, rows: int = 1_000) -> RolloutFacts:
    return asked(*answers, judged=Judged(rows, 0, 0))


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((), "the outside gate calendar has yet to answer"),
        ((answer(),), "the outside gate errors has yet to answer"),
        (
            (answer(), answer("errors", verdict="no", said="403: frozen", failures=7)),
            "the outside gate errors says no: 403: frozen",
        ),
        (
            (answer(verdict="unknown", said="no answer within 5 s"), answer("errors")),
            "the outside gate calendar gives no answer: no answer within 5 s",
        ),
        ((answer(phase="verify"), answer("errors")), "the outside gate calendar has yet to answer"),
        # Its no to a wider bound is a no to this one.
        (
            (answer(verdict="no", said="403", bound_ms=20_001), answer("errors")),
            "the outside gate calendar says no: 403",
        ),
        # Asked about a wider bound than the one recommended by now.
        ((answer(bound_ms=20_001), answer("errors")), "the outside gate calendar has yet to answer"),
    ],
)
def test_a_narrowing_waits_until_every_gate_has_said_yes_and_says_for_which(
    answers: tuple[GateAnswer, ...], reason: str
) -> None:
    move = moved(rollout(), asked(*answers))
    assert (move.state, move.gate, move.reason) == ("Recommended", "Outside", f"held: {reason}")


def test_it_is_published_once_all_have_said_yes_to_it_or_to_a_narrower_bound_a_moment_ago() -> None:
    known = asked(answer(bound_ms=10_000), answer("errors"))
    valid_us = NOW_US + GATE_VALID_MS * 1_000
    assert moved(rollout(), known, valid_us).state == "Published"
    assert moved(rollout(), known, valid_us + 1).gate == "Outside"


def test_gates_are_asked_last_and_after_the_approval() -> None:
    known = facts(policy=policy(gates=("calendar",), approval="all", paused=True))
    assert moved(rollout(), known).gate == "Paused"
    known = facts(policy=policy(gates=("calendar",), approval="all"))
    assert moved(rollout(), known).state == "AwaitingApproval"
    assert moved(rollout("AwaitingApproval", approved=APPROVED), known).gate == "Outside"


@pytest.mark.parametrize(
    ("changes", "published_ms"),
    [({"direction": "Widen"}, 10_000), ({"cause": "Operator"}, 60_000), ({}, 20_000), ({}, 10_000)],
)
def test_what_is_no_recommended_narrowing_of_the_published_bound_asks_nobody(
    changes: dict[str, Any], published_ms: int
) -> None:
    """A narrowing of what the job runs with may widen what is published and not taken up yet."""
    assert at_outside_gate(rollout(**changes), asked(published_ms=published_ms), NOW_US) is None
    assert at_outside_gate(rollout(), asked(published_ms=20_001), NOW_US) is not None


def test_a_narrowing_is_verified_only_with_every_gates_yes_and_says_for_which_it_waits() -> None:
    one = rollout("Effective")
    waiting = moved(one, verifying(answer(), answer("errors", "verify")))
    assert (waiting.state, waiting.gate) == ("Effective", "Outside")
    assert waiting.reason.endswith("as predicted; held: the outside gate calendar has yet to answer")
    agreed = verifying(answer(phase="verify"), answer("errors", "verify"))
    assert moved(one, agreed).state == "Verified"


def test_a_gate_that_says_no_often_enough_in_a_row_undoes_a_narrowing_that_is_being_verified() -> None:
    def says_no(times: int) -> GateAnswer:
        return answer("errors", "verify", verdict="no", said="0.3 is above the maximum, 0.01", failures=times)

    one = rollout("Effective")
    once = moved(one, verifying(says_no(1), rows=10))
    assert (once.state, once.gate) == ("Effective", None)
    assert once.reason.endswith("errors says no (1 of 3 in a row): 0.3 is above the maximum, 0.01")
    undone = moved(one, verifying(says_no(GATE_FAILURES), rows=10))
    assert (undone.state, undone.failure) == ("RolledBack", "Outside")
    assert undone.reason == "the outside gate errors said no 3 times in a row: 0.3 is above the maximum, 0.01"


def test_a_gate_that_gives_no_answer_undoes_nothing_however_long() -> None:
    silent = answer(phase="verify", verdict="unknown", said="it cannot be reached", failures=GATE_FAILURES)
    move = moved(rollout("Effective"), verifying(silent, rows=10))
    assert move.state == "Effective"
    assert move.reason.endswith("calendar gives no answer: it cannot be reached")


def test_the_ledger_undoes_a_narrowing_whatever_gates_say() -> None:
    agreed = asked(answer(phase="verify"), answer("errors", "verify"), judged=Judged(1_000, 300, 300))
    assert moved(rollout("Effective"), agreed).failure == "Completeness"


def test_what_the_ledger_undoes_has_its_reason_alone_though_a_gate_says_no_too() -> None:
    says_no = answer("errors", "verify", verdict="no", said="403", failures=GATE_FAILURES)
    undone = moved(rollout("Effective"), asked(says_no, judged=Judged(1_000, 300, 300)))
    assert (undone.state, undone.failure) == ("RolledBack", "Completeness")
    assert "gate" not in undone.reason


def test_no_gate_delays_or_undoes_what_a_person_wrote() -> None:
    says_no = answer("errors", "verify", verdict="no", said="403", failures=GATE_FAILURES)
    assert moved(rollout("Effective", cause="Operator"), verifying(says_no)).state == "Verified"


def test_failures_count_in_a_row_within_a_phase() -> None:
    def next_after(before: GateAnswer | None, verdict: Any, phase: Phase = "verify") -> GateAnswer:
        return counted_after(before, answer("a", phase, bound_ms=1, verdict=verdict))

    one = next_after(next_after(None, "no", "publish"), "no")
    assert one.failures == 1
    assert next_after(next_after(one, "unknown"), "no").failures == 2
    assert next_after(next_after(one, "yes"), "no").failures == 1


def test_each_gate_is_asked_about_a_narrowing_again_after_a_while_and_about_nothing_else() -> None:
    known = (answer(),)
    assert due(GATES.gates, known, rollout(), NOW_US) == ["errors"]
    assert due(GATES.gates, known, rollout(), NOW_US + GATE_ASK_MS * 1_000 - 1) == ["errors"]
    assert due(GATES.gates, known, rollout(), NOW_US + GATE_ASK_MS * 1_000) == ["calendar", "errors"]
    assert due(GATES.gates, known, rollout(to_bound_ms=19_999), NOW_US) == ["calendar", "errors"]
    assert due(GATES.gates, known, rollout("Effective"), NOW_US) == ["calendar", "errors"]
    assert due(GATES.gates, (), rollout("Published"), NOW_US) == []
    assert due(GATES.gates, (), rollout(direction="Widen"), NOW_US) == []
