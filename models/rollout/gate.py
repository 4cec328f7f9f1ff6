"""The gate between a recommendation and the job: when a rollout may be published, and what holds it.

A bound is widened because rows are being lost, so the gates that slow narrowing down do not apply to it: evidence,
freezes, the cooldown, the rate limit, the share of the fleet. How many jobs restart at once is limited in both
directions, but not here: see ``restarts``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np

from tidemark.models.base.defaults import GATE_ASK_MS, GATE_FAILURES, GATE_VALID_MS, LISTENING_MS
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural
from tidemark.models.recommend.choice import not_covered
from tidemark.models.rollout.states import (
    Failure,
    Gate,
    GateAnswer,
    Move,
    Phase,
    Rollout,
    RolloutFacts,
    State,
)
from tidemark.models.specs.slo import Day, FreezeWindow

DAY_US = 86_400_000_000


def at_gate(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move | None:
    """Return the first gate that holds the rollout; None when it may be published."""
    return next(_holding(rollout, facts, now_us), None)


def needs_approval(rollout: Rollout, facts: RolloutFacts) -> str | None:
    """Return why a person has to approve the rollout; None when nobody has to, or somebody has.

    Once a person has vetoed a bound, the next best one in its direction is not published behind their back.
    """
    if rollout.approved or rollout.cause != "Decision":
        return None
    vetoed = (
        veto for veto in facts.failures if veto.until_us is None and veto.direction == rollout.direction
    )
    if (veto := next(vetoed, None)) is not None:
        return f"a person has to approve it: {veto.why}"
    required = {
        "none": False,
        "first": not facts.published_before,
        "narrow": rollout.direction == "Narrow",
        "all": True,
    }
    return "a person has to approve it" if required[facts.policy.approval] else None


def when(at_us: int) -> str:
    """Return a time to the second, in UTC."""
    return f"{np.datetime64(at_us // 1_000_000, 's')} UTC".replace("T", " ", 1)


def _holding(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Iterator[Move]:
    policy = facts.policy
    if facts.pinned is not None:
        yield Move("Recommended", f"held by the pin: {facts.pinned}", "Pinned")
    if rollout.cause == "Operator":
        return
    if policy.paused:
        yield _waits("Paused", "the policy is paused; resume it")
    failed = [failure for failure in facts.failures if _fails(failure, rollout, now_us)]
    for veto in (failure for failure in failed if failure.until_us is None):
        again = f"it is not tried again before a person lifts this veto (rollout {veto.rollout_id})"
        yield _waits("Vetoed", f"{veto.why}; {again}")
    if rollout.cause == "NoData":
        # It waits for the job to return, so the job need not be listening now.
        return
    yield from _not_listening(facts, now_us)
    for failure in failed:
        if failure.until_us is not None:
            again = (
                f"it is not tried again before {when(failure.until_us)} unless the SLO or the policy changes"
            )
            yield _waits("FailedBefore", f"{failure.why}; {again}")
    if rollout.direction == "Widen":
        return
    if not rollout.approved:
        yield from _too_soon(facts)
    frozen_us = frozen_until_us(policy.freeze_windows, now_us)
    if frozen_us is not None:
        yield _waits("Frozen", f"nothing is narrowed in the freeze until {when(frozen_us)}")
    yield from _slowed(facts, now_us)


def _waits(gate: Gate, why: str) -> Move:
    return Move("Recommended", f"held: {why}", gate)


def _not_listening(facts: RolloutFacts, now_us: int) -> Iterator[Move]:
    limit_us = LISTENING_MS * 1_000
    if facts.last_contact_us is None or now_us - facts.last_contact_us > limit_us:
        silent = f"no report and no acknowledgement for {format_duration(limit_us)}"
        yield _waits("NotListening", f"{silent}, and a job that does not listen is not rolled")
    elif facts.unanswered_us is not None and now_us - facts.unanswered_us > limit_us:
        silent = f"the job has not acknowledged what was published {when(facts.unanswered_us)}"
        yield _waits("NotListening", f"{silent}, and a job that does not answer is not rolled")


def _too_soon(facts: RolloutFacts) -> Iterator[Move]:
    evidence = facts.evidence
    if evidence is None or evidence.enough:
        return
    needs = f"narrowing by itself needs {format_about(evidence.needed_us)} of evidence{evidence.why}"
    missing = not_covered(evidence.covered_us, facts.slo.confidence_ppm / PPM)
    until = "the horizon is shorter, so that a person has to approve it"
    if evidence.reached_us is not None:
        until = f"enough at the earliest {when(evidence.reached_us)}, unless a person approves it"
    yield _waits("Evidence", f"{needs}, and {missing}; {until}")


def _slowed(facts: RolloutFacts, now_us: int) -> Iterator[Move]:
    policy = facts.policy
    if facts.narrowed_us:
        last_us, cooldown_us = facts.narrowed_us[-1], policy.cooldown_ms * 1_000
        if now_us < last_us + cooldown_us:
            ends = f"the cooldown of {format_about(cooldown_us)} ends {when(last_us + cooldown_us)}"
            yield _waits("Cooldown", f"narrowed {when(last_us)}; {ends}")
    allowed = policy.max_narrowings_a_day
    within = [at_us for at_us in facts.narrowed_us if at_us > now_us - DAY_US]
    if allowed is not None and len(within) >= allowed:
        until = when(within[-allowed] + DAY_US)
        yield _waits(
            "RateLimit", f"narrowed {len(within)} times in 24 hours, {allowed} are allowed; until {until}"
        )
    if facts.fleet_narrowing >= facts.fleet_max:
        others = plural(facts.fleet_narrowing, "other stream is", "other streams are")
        yield _waits("FleetShare", f"{others} being narrowed, and at most {facts.fleet_max} may be at once")


def _fails(failure: Failure, rollout: Rollout, now_us: int) -> bool:
    if failure.until_us is not None and now_us >= failure.until_us:
        return False
    if failure.direction != rollout.direction:
        return False
    if failure.bound_ms is None or rollout.to_bound_ms is None:
        return failure.bound_ms == rollout.to_bound_ms
    narrow = failure.direction == "Narrow"
    return rollout.to_bound_ms <= failure.bound_ms if narrow else rollout.to_bound_ms >= failure.bound_ms


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
    """Return the gates that are to be asked about a rollout now."""
    if phase_of(rollout.state) is None or not is_asked_about(rollout):
        return []
    return [
        gate
        for gate in gates
        if (answer := _about(gate, known, rollout)) is None or now_us - answer.at_us >= GATE_ASK_MS * 1_000
    ]


def counted_after(before: GateAnswer | None, answer: GateAnswer) -> GateAnswer:
    """Return a gate's answer with the number of failures in a row, given its answer before."""
    count = before.failures if before is not None and before.phase == answer.phase else 0
    return replace(answer, failures={"yes": 0, "no": count + 1, "unknown": count}[answer.verdict])


def at_outside_gate(rollout: Rollout, facts: RolloutFacts, now_us: int) -> Move | None:
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
            return _waits("Outside", _words(gate, answer))
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


_DAYS: tuple[Day, ...] = get_args(Day)
_MINUTE_US = 60_000_000

_EPOCH_DAY = 3
"""1970-01-01 was a Thursday, the fourth of the days."""


def frozen_until_us(windows: tuple[FreezeWindow, ...], now_us: int) -> int | None:
    """Return when the freeze that holds at ``now_us`` ends; None when none does.

    Windows that follow each other directly are one freeze. The end of one that never ends is given as in a week.
    """
    until_us = now_us
    while (further_us := _end_us(windows, until_us)) is not None:
        until_us = further_us
        if until_us - now_us >= 7 * DAY_US:
            return until_us
    return until_us if until_us > now_us else None


def _end_us(windows: tuple[FreezeWindow, ...], at_us: int) -> int | None:
    day, in_day_us = divmod(at_us, DAY_US)
    name = _DAYS[(day + _EPOCH_DAY) % 7]
    ends = [
        window.to_minute * _MINUTE_US
        for window in windows
        if name in window.days
        and window.from_minute * _MINUTE_US <= in_day_us < window.to_minute * _MINUTE_US
    ]
    return day * DAY_US + max(ends) if ends else None
