"""What the answers of outside gates mean for a rollout.

They are asked only about a recommended narrowing. A widening protects rows and never waits for anybody, and what a
person writes is theirs. Without an answer nothing is narrowed, and nothing is rolled back either.
"""

from __future__ import annotations

from tidemark.models.defaults import GATE_ASK_MS, GATE_FAILURES, GATE_VALID_MS
from tidemark.models.rollout.facts import GateAnswer, Move, Phase, Rollout, RolloutFacts, Verdict
from tidemark.models.rollout.states import State


def phase_of(state: State) -> Phase | None:
    """Return what outside gates are asked about a rollout in ``state``; None when they are not asked."""
    match state:
        case "Recommended":
            return "publish"
        case "Effective":
            return "verify"
        case _:
            return None


def is_asked_about(rollout: Rollout) -> bool:
    """Return whether outside gates have a say about a rollout."""
    return rollout.direction == "Narrow" and rollout.cause == "Decision"


def due(gates: tuple[str, ...], known: tuple[GateAnswer, ...], rollout: Rollout, now_us: int) -> list[str]:
    """Return the gates that are to be asked about a rollout now.

    Args:
        gates: those that the policy names.
        known: the newest answers about the rollout.
        rollout: the rollout.
        now_us: the wall time in microseconds.
    """
    if phase_of(rollout.state) is None or not is_asked_about(rollout):
        return []
    return [
        gate
        for gate in gates
        if (answer := _about(gate, known, rollout)) is None or now_us - answer.at_us >= GATE_ASK_MS * 1_000
    ]


def answered(
    before: GateAnswer | None,
    *,
    gate: str,
    phase: Phase,
    bound_ms: int,
    verdict: Verdict,
    said: str,
    at_us: int,
) -> GateAnswer:
    """Return an answer that counts the failures in a row, given the gate's answer before it."""
    count = before.failures if before is not None and before.phase == phase else 0
    failures = {"yes": 0, "no": count + 1, "unknown": count}[verdict]
    return GateAnswer(
        gate=gate,
        phase=phase,
        bound_ms=bound_ms,
        verdict=verdict,
        said=said,
        at_us=at_us,
        failures=failures,
    )


def held_outside(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move | None:
    """Return how an outside gate holds a rollout before it is published; None when none does.

    A bound that is wider than the published one protects rows, even where the job itself would be narrowed.
    """
    published_ms, to_ms = facts.published_ms, rollout.to_bound_ms
    wider = published_ms is not None and to_ms is not None and to_ms >= published_ms
    if wider or not is_asked_about(rollout):
        return None
    for gate in facts.policy.gates:
        answer = _current(gate, rollout, facts, now_us)
        if answer is None or answer.verdict != "yes":
            return Move("Recommended", f"held: {_words(gate, answer)}", "Outside")
    return None


def judge_outside(rollout: Rollout, facts: RolloutFacts, found: Move, now_us: int) -> Move:
    """Return what outside gates make of the result of verification: they can only delay or undo what is good."""
    if found.state == "RolledBack" or not is_asked_about(rollout):
        return found
    open_ = []
    for gate in facts.policy.gates:
        answer = _current(gate, rollout, facts, now_us)
        if answer is not None and answer.failures >= GATE_FAILURES and answer.verdict == "no":
            reason = f"the outside gate {gate} said no {answer.failures} times in a row: {answer.said}"
            return Move("RolledBack", reason, failure="Outside")
        if answer is None or answer.verdict != "yes":
            open_.append((gate, answer))
    if found.state == "Verified" and open_:
        return Move("Effective", f"{found.reason}; held: {_words(*open_[0])}", "Outside")
    said = [_words(gate, answer) for gate, answer in open_ if answer is not None]
    return Move(found.state, "; ".join([found.reason, *said]), failure=found.failure)


def _about(gate: str, known: tuple[GateAnswer, ...], rollout: Rollout) -> GateAnswer | None:
    """Return what a gate has said about a rollout; that it agrees to a bound counts for wider ones too."""
    phase, to_ms = phase_of(rollout.state), rollout.to_bound_ms or 0
    return next(
        (
            answer
            for answer in known
            if (answer.gate, answer.phase) == (gate, phase)
            and (answer.verdict != "yes" or answer.bound_ms <= to_ms)
        ),
        None,
    )


def _current(gate: str, rollout: Rollout, facts: RolloutFacts, now_us: int) -> GateAnswer | None:
    answer = _about(gate, facts.gate_answers, rollout)
    return None if answer is None or now_us - answer.at_us > GATE_VALID_MS * 1_000 else answer


def _words(gate: str, answer: GateAnswer | None) -> str:
    if answer is None:
        return f"the outside gate {gate} has yet to answer"
    if answer.verdict == "unknown":
        return f"the outside gate {gate} gives no answer: {answer.said}"
    count = "" if answer.phase == "publish" else f" ({answer.failures} of {GATE_FAILURES} in a row)"
    return f"the outside gate {gate} says no{count}: {answer.said}"
