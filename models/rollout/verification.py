"""Whether a bound that is in effect does what was predicted of it, by the ledger.

A row can be late only once the watermark has passed its key, so a bound is verified by rows at risk: those judged after
whole windows have opened and closed under it. For a rollback every lost row counts, so that it is prompt.

A rollback happens only where it helps: after a narrowing that loses too many rows, and after a widening that takes too
long or holds too much state.
"""

from __future__ import annotations

import math

from tidemark.models.base.confidence import interval_ppm
from tidemark.models.base.defaults import VERIFY_BATCHES, VERIFY_LATE_ROWS, VERIFY_WINDOWS
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM, format_target
from tidemark.models.recommend.choice import percent_of
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.states import Move, Rollout, RolloutFacts


def needed_rows(target_ppm: int, batch_rows: int, rows_per_event: float) -> int:
    """Return how many pairs must be at risk until a bound is verified.

    Enough independent events to tell the budget from twice the budget, and from enough batches that no single one
    decides.
    """
    events = VERIFY_LATE_ROWS * PPM / (PPM - target_ppm)
    return max(math.ceil(events * rows_per_event), VERIFY_BATCHES * batch_rows)


def needed_event_us(span_us: int, *bounds_ms: int | None) -> int:
    """Return how much event time must pass under a bound until it is verified, in microseconds.

    Args:
        span_us: length of the operator's windows, in microseconds; 0 for operators without.
        bounds_ms: the bounds before and after, in milliseconds: stragglers may take as long as the wider one; None:
            unknown.
    """
    return VERIFY_WINDOWS * span_us + max((bound or 0 for bound in bounds_ms), default=0) * 1_000


def verify(rollout: Rollout, facts: RolloutFacts) -> Move:
    """Return the next state of a rollout that is in effect."""
    judged, at_risk = facts.judged, facts.at_risk
    if rollout.direction == "Narrow":
        lost = _loses(rollout, facts, judged) or _loses(rollout, facts, at_risk)
        if lost is not None:
            return Move("RolledBack", lost, failure="Completeness")
    elif judged.rows >= rollout.needed_rows:
        for above in (_too_slow(facts), _too_large(facts)):
            if above is not None:
                return above
    if at_risk.known < rollout.needed_rows or facts.event_us < rollout.needed_event_ms * 1_000:
        return Move("Effective", _still_needed(rollout, facts))
    return _verdict(rollout, facts)


def judge_on(rollout: Rollout, facts: RolloutFacts) -> Move | None:
    """Return the next state of a verified rollout: None unless it now misses its target, or no longer does."""
    lost = _loses(rollout, facts, facts.at_risk)
    if lost is None:
        # Not before the share itself has recovered: near the limit of certainty the state would flap.
        return _verdict(rollout, facts) if rollout.missed_us is not None and _recovered(facts) else None
    if rollout.direction == "Narrow":
        reason = f"after it was verified, {lost}; the previous bound is published again"
        return Move("RolledBack", reason, failure="Completeness")
    if rollout.missed_us is not None:
        return None
    reason = f"after it was verified, {lost}; it stays: a narrower bound would lose more"
    return Move("Verified", reason, failure="Completeness")


def _recovered(facts: RolloutFacts) -> bool:
    """Return whether the share of rows at risk that were admitted is at least the target."""
    at_risk = facts.at_risk
    return at_risk.late_min * PPM <= (PPM - facts.slo.target_ppm) * at_risk.rows


def _verdict(rollout: Rollout, facts: RolloutFacts) -> Move:
    at_risk = facts.at_risk
    rows, unknown = at_risk.rows, at_risk.rows - at_risk.known
    least, most = (percent_of(rows - late, rows) for late in (at_risk.late_max, at_risk.late_min))
    admitted = f"{least} to {most}" if unknown else least
    of_some = f" (of {unknown:,} it is unknown)" if unknown else ""
    reason = f"{admitted} of {rows:,} rows at risk were admitted{of_some}{_against(rollout, facts)}"
    return Move("Verified", reason)


def _still_needed(rollout: Rollout, facts: RolloutFacts) -> str:
    """Return how far verification has come, and what is missing."""
    rows, needed_us = facts.at_risk.known, rollout.needed_event_ms * 1_000
    enough = "" if rows < rollout.needed_rows else ", which is enough"
    reason = f"in effect; rows at risk: {rows:,}, needed {rollout.needed_rows:,}{enough}"
    if needed_us:
        enough = "" if facts.event_us < needed_us else ", which is enough"
        reason += f"; event time: {format_about(facts.event_us)}, needed {format_about(needed_us)}{enough}"
    return reason


def _loses(rollout: Rollout, facts: RolloutFacts, judged: Judged) -> str | None:
    """Return by how much completeness is worse than predicted and than the target; None when that is not certain.

    It is judged over the needed rows. Before they have arrived, it is certain only if all remaining rows being on time
    would not change it, so that an early check raises no false alarm.
    """
    slo = facts.slo
    rows = max(judged.rows, rollout.needed_rows)
    _, max_ppm = interval_ppm(
        judged.late_min, judged.late_max, rows, slo.confidence_ppm, rollout.rows_per_event
    )
    floor_ppm = (
        slo.target_ppm
        if rollout.predicted.min_ppm is None
        else min(slo.target_ppm, rollout.predicted.min_ppm)
    )
    if max_ppm is None or max_ppm >= floor_ppm:
        return None
    admitted = percent_of(judged.rows - judged.late_min, judged.rows)
    target = format_target(slo.target_ppm)
    if rollout.predicted.min_ppm is None:
        return f"{admitted} of {judged.rows:,} rows were admitted: fewer than the target, {target}"
    return (
        f"{admitted} of {judged.rows:,} rows were admitted: fewer than predicted "
        f"(at least {_share(rollout.predicted.min_ppm)}) and than the target, {target}"
    )


def _too_slow(facts: RolloutFacts) -> Move | None:
    cap_ms, latency_us = facts.slo.latency_cap_ms, facts.latency_us
    if (
        cap_ms is None
        or latency_us is None
        or latency_us <= cap_ms * 1_000
        or facts.slo.on_conflict == "exceed_latency_cap"
    ):
        return None
    cap = format_duration(cap_ms * 1_000)
    reason = f"the mean latency under it is {format_about(latency_us)}, above the cap of {cap}"
    return Move("RolledBack", reason, failure="Latency")


def _too_large(facts: RolloutFacts) -> Move | None:
    cap, rows = facts.slo.state_cap_rows, facts.state_rows
    if cap is None or rows is None or rows <= cap or facts.slo.on_conflict == "exceed_state_cap":
        return None
    return Move(
        "RolledBack", f"the state under it has {rows:,} rows, above the cap of {cap:,}", failure="State"
    )


def _against(rollout: Rollout, facts: RolloutFacts) -> str:
    """Return how that compares with the prediction."""
    at_risk = facts.at_risk
    if rollout.predicted.min_ppm is None:
        return "; nothing could be predicted"
    # If all of those were lost of which it is unknown, and if none was.
    least_ppm, most_ppm = (
        interval_ppm(late, late, at_risk.rows, facts.slo.confidence_ppm, rollout.rows_per_event)[1]
        for late in (at_risk.late_max, at_risk.late_min)
    )
    if least_ppm is None or least_ppm >= rollout.predicted.min_ppm:
        return ", as predicted"
    if most_ppm is None or most_ppm >= rollout.predicted.min_ppm:
        return "; whether that is as predicted is unknown, too"
    reason = f", fewer than predicted (at least {_share(rollout.predicted.min_ppm)})"
    if rollout.direction == "Widen":
        return f"{reason}; a rollback to a narrower bound would admit even fewer"
    return f"{reason}, but not below the target"


def _share(share_ppm: int) -> str:
    return f"{share_ppm / 10_000:.2f} %"
