"""The gate between a recommendation and the job: when a rollout may be published, and what holds it.

A bound is widened because rows are being lost, so the gates that slow narrowing down do not apply to it: evidence,
freezes, the cooldown, the rate limit, the share of the fleet. How many jobs restart at once is limited in both
directions, but not here: see ``restarts``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidemark.models.defaults import LISTENING_MS
from tidemark.models.duration import format_about, format_duration
from tidemark.models.plural import plural
from tidemark.models.rollout.facts import Failure, Move, Rollout, RolloutFacts
from tidemark.models.rollout.freeze import frozen_until_us

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
        yield Move("Recommended", "held: the policy is paused; resume it", "Paused")
    failed = [failure for failure in facts.failures if _fails(failure, rollout, now_us)]
    for veto in (failure for failure in failed if failure.until_us is None):
        reason = f"held: {veto.why}; it is not tried again before a person lifts this veto (rollout {veto.rollout_id})"
        yield Move("Recommended", reason, "Vetoed")
    if rollout.cause == "NoData":
        # It waits for the job to return, so the job need not be listening now.
        return
    yield from _not_listening(facts, now_us)
    for failure in failed:
        if failure.until_us is not None:
            until = when(failure.until_us)
            reason = (
                f"held: {failure.why}; it is not tried again before {until} "
                "unless the SLO or the policy changes"
            )
            yield Move("Recommended", reason, "FailedBefore")
    if rollout.direction == "Widen":
        return
    yield from _too_soon(facts)
    frozen_us = frozen_until_us(policy.freeze_windows, now_us)
    if frozen_us is not None:
        yield Move(
            "Recommended", f"held: nothing is narrowed in the freeze until {when(frozen_us)}", "Frozen"
        )
    yield from _slowed(facts, now_us)


def _not_listening(facts: RolloutFacts, now_us: int) -> Iterator[Move]:
    silent = f"no report and no acknowledgement for {format_duration(LISTENING_MS * 1_000)}"
    if facts.last_contact_us is None or now_us - facts.last_contact_us > LISTENING_MS * 1_000:
        yield Move(
            "Recommended", f"held: {silent}, and a job that does not listen is not rolled", "NotListening"
        )
    elif facts.unanswered_us is not None and now_us - facts.unanswered_us > LISTENING_MS * 1_000:
        reason = (
            f"held: the job has not acknowledged what was published {when(facts.unanswered_us)}, "
            "and a job that does not answer is not rolled"
        )
        yield Move("Recommended", reason, "NotListening")


def _too_soon(facts: RolloutFacts) -> Iterator[Move]:
    evidence = facts.evidence
    if evidence is None or evidence.covered_us >= evidence.needed_us:
        return
    reason = (
        f"held: a first narrowing needs {format_about(evidence.needed_us)} of evidence{evidence.why}, "
        f"and reports cover {format_about(evidence.covered_us)}; enough at the earliest {when(evidence.reached_us)}"
    )
    yield Move("Recommended", reason, "Evidence")


def _slowed(facts: RolloutFacts, now_us: int) -> Iterator[Move]:
    policy = facts.policy
    if facts.narrowed_us:
        free_us = facts.narrowed_us[-1] + policy.cooldown_ms * 1_000
        if now_us < free_us:
            cooldown = format_about(policy.cooldown_ms * 1_000)
            narrowed = when(facts.narrowed_us[-1])
            reason = f"held: narrowed {narrowed}; the cooldown of {cooldown} ends {when(free_us)}"
            yield Move("Recommended", reason, "Cooldown")
    allowed = policy.max_narrowings_a_day
    within = [at_us for at_us in facts.narrowed_us if at_us > now_us - DAY_US]
    if allowed is not None and len(within) >= allowed:
        free_us = within[-allowed] + DAY_US
        message = (
            f"held: narrowed {len(within)} times in 24 hours, {allowed} are allowed; until {when(free_us)}"
        )
        yield Move("Recommended", message, "RateLimit")
    if facts.fleet_narrowing >= facts.fleet_max:
        others = plural(facts.fleet_narrowing, "other stream is", "other streams are")
        message = f"held: {others} being narrowed, and at most {facts.fleet_max} may be at once"
        yield Move("Recommended", message, "FleetShare")


def _fails(failure: Failure, rollout: Rollout, now_us: int) -> bool:
    if failure.until_us is not None and now_us >= failure.until_us:
        return False
    if failure.direction != rollout.direction:
        return False
    if failure.bound_ms is None or rollout.to_bound_ms is None:
        return failure.bound_ms == rollout.to_bound_ms
    narrow = failure.direction == "Narrow"
    return rollout.to_bound_ms <= failure.bound_ms if narrow else rollout.to_bound_ms >= failure.bound_ms
