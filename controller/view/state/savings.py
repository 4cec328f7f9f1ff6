"""What a stream would save under its recommended bound: from its curve, its ledger and its recommendation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from tidemark.controller.control.decide.load import read_replaced_bound
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.view.charts.what_if import BoundOutcome, WhatIf, outcome_at, reported_us, what_if_of
from tidemark.controller.view.state.budget import Spent
from tidemark.controller.view.state.state import StreamState
from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import TimeWindow
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural
from tidemark.models.evidence.curve import MeanLatency, latency_of
from tidemark.models.recommend.savings import (
    UNKNOWN,
    ZERO,
    Figures,
    Interval,
    Savings,
    a_day,
    latency_between,
    windows_a_day,
)
from tidemark.models.recommend.steps import because
from tidemark.models.recommend.transition import cut_bucket
from tidemark.models.rollout.states import OPEN, rollout_text

UNSEEN = Savings(reason="nothing is computed yet: the first snapshot follows within a minute")
"""What is known of a stream without a snapshot."""


def read_savings(
    session: Session, state: StreamState, now_us: int, cache: EvidenceCache, spent: Spent | None
) -> Savings:
    """Return what a stream would save.

    Args:
        spent: what counts for its budget; None without an SLO.
    """
    what_if = what_if_of(session, state.id, now_us, cache)
    if what_if.basis is None or what_if.situation is None:
        return _on_its_way(state, None)
    bound_ms = read_replaced_bound(session, what_if.basis.horizon).bound_ms
    savings = _on_its_way(state, bound_ms)
    recommended_ms, operator = savings.recommended_bound_ms, what_if.situation.operator
    now = _under(what_if, bound_ms)
    then = None if recommended_ms is None else _under(what_if, recommended_ms)
    windows = (
        windows_a_day(what_if.basis.curve.emissions, operator.slide_us)
        if isinstance(operator, TimeWindow)
        else None
    )
    judged = _judged(what_if) if spent is None else spent
    return replace(
        savings,
        loses=judged.bad_min > judged.allowed,
        unknown=tuple(_unknown(what_if, state, now, now if then is None else then)),
        target_ppm=None if spent is None else spent.share_ppm,
        completeness_min_ppm=judged.min_ppm,
        completeness_max_ppm=judged.max_ppm,
        bound_ms=bound_ms,
        windows_a_day=windows,
        now=_figures(what_if, state, now, windows),
        recommended=None if then is None else _figures(what_if, state, then, windows),
    )


def _judged(what_if: WhatIf) -> Spent:
    """Return what the ledger counted over the horizon; without an SLO no row may be late."""
    assert what_if.basis is not None
    facts = what_if.basis.facts
    seen = facts.completeness
    # No bound admits a misdated row, and a corrected one is in a later version of its window.
    certain = max(seen.late_min - facts.misdated_late - seen.corrected_max, 0)
    return Spent(seen.rows + seen.unknown, certain, seen.late_max - seen.corrected_min + seen.unknown, PPM)


@dataclass(frozen=True, slots=True)
class _Under:
    """What a bound would do."""

    bound_ms: int
    outcome: BoundOutcome
    latency: MeanLatency | None


def _under(what_if: WhatIf, bound_ms: int) -> _Under:
    outcome = outcome_at(what_if, bound_ms * 1_000)
    assert outcome is not None, "there are reports"
    return _Under(
        bound_ms,
        outcome,
        latency_of(outcome.admission.point.latency_wall, what_if.downstream, bound_ms),
    )


def _figures(what_if: WhatIf, state: StreamState, under: _Under, windows: int | None) -> Figures:
    latency_ms, span_us = latency_between(under.latency), reported_us(what_if)
    return Figures(
        latency_ms=latency_ms,
        waiting_ms=latency_ms.times(windows),
        late_rows=UNKNOWN if span_us is None else a_day(_late(what_if, state, under), span_us),
        state_rows=Interval.exactly(under.outcome.state_rows),
        state_bytes=Interval.exactly(under.outcome.state_bytes),
    )


def _late(what_if: WhatIf, state: StreamState, under: _Under) -> Interval:
    """Return how many pairs of the horizon a bound makes late."""
    assert what_if.basis is not None
    assert what_if.situation is not None
    facts, most = what_if.basis.facts, under.outcome.admission.point.late
    if not what_if.situation.drops_state:
        return ZERO
    if not facts.need_pairs and facts.need_unknown_rows:
        return UNKNOWN
    cut = cut_bucket(what_if.basis.curve, under.bound_ms * 1_000)
    least = most if cut is None else most - cut.pairs
    unknown = facts.need_unknown_rows * facts.completeness.keys_per_row
    return Interval(0 if _least_unknown(state) else least, most + unknown)


def _least_unknown(state: StreamState) -> str | None:
    """Return why fewer rows may be lost than come late by the stream's own bound; None when that is not so."""
    if state.join_id is not None:
        return "late rows: at most, because the other sides of the join may hold the watermark back"
    if state.late is not None and state.late.in_force == "revise":
        return "late rows: at most, because they correct their windows as long as the grace lasts"
    return None


def _unknown(what_if: WhatIf, state: StreamState, now: _Under, then: _Under) -> list[str]:
    """Return why figures are not known, or no single numbers, under the bound in force and another one."""
    assert what_if.basis is not None
    assert what_if.situation is not None
    unknown = []
    if now.latency is None:
        unknown.append("latency: not known, because no window of this stream has come out")
    censored = {
        format_duration(one.bound_ms * 1_000)
        for one in (now, then)
        if one.latency is not None and one.latency.censored
    }
    if censored:
        under = " and ".join(sorted(censored))
        unknown.append(f"latency: at least, because too many windows would still be open under {under}")
    facts = what_if.basis.facts
    if facts.need_unknown_rows and what_if.situation.drops_state:
        more = f"up to {plural(facts.need_unknown_rows, 'row')} more, whose delay is not known"
        unknown.append(f"late rows: {more if facts.need_pairs else 'not known, because no delay is'}")
    if reported_us(what_if) is None:
        unknown.append("late rows: not known, because less than a minute was reported")
    least = _least_unknown(state)
    if least is not None:
        unknown.append(least)
    if then.outcome.state_rows is None:
        downstream = what_if.downstream
        why = "the job reports none" if not what_if.situation.state_rows else "the pace of event time is not"
        if downstream is not None and downstream.state_unforeseen is not None:
            why = downstream.state_unforeseen
        unknown.append(f"state: not known, because {why}")
    return unknown


def _on_its_way(state: StreamState, bound_ms: int | None) -> Savings:
    """Return what is recommended, and how far it is on its way into force.

    Args:
        bound_ms: the bound in force, in milliseconds; None when it is not known.
    """
    recommended, rollout = state.recommendation, state.rollout
    if recommended is None:
        if state.newest is None:
            return Savings(reason="no batch has been reported")
        why = "no SLO is set" if state.slo is None else "no decision has been made yet"
        return Savings(reason=f"nothing is recommended: {why}")
    if recommended.bound_ms is None:
        return Savings(reason=f"nothing is recommended: {because(recommended.steps)}")
    savings = Savings(reason="it is in force", recommended_bound_ms=recommended.bound_ms)
    if recommended.bound_ms == bound_ms:
        return savings
    if rollout is not None and rollout.state in OPEN:
        waits = rollout.id if rollout.state == "AwaitingApproval" else None
        text = rollout_text(rollout.id, rollout.state, rollout.reason)
        is_held = rollout.held_by in {"Paused", "Pinned"}
        return replace(savings, reason=f"rollout {text}", awaits_approval=waits, provisional=is_held)
    if state.pin is not None:
        reason = f"it is pinned to {state.pin.to}"
    elif state.paused:
        reason = "its policy is paused"
    elif state.mode == "Off":
        reason = "its mode is Off, so nothing is rolled out"
    else:
        reason = "no rollout is under way"
    return replace(savings, reason=reason, provisional=True)
