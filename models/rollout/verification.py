"""Whether a bound that is in effect does what was predicted of it, by the ledger.

Going back is only for what going back can help: a narrowing that loses too many rows, and a widening that takes too
long or holds too much state.
"""

from __future__ import annotations

import math

from tidemark.models.choice import percent_of
from tidemark.models.defaults import VERIFY_BATCHES, VERIFY_LATE_ROWS
from tidemark.models.duration import format_about, format_duration
from tidemark.models.interval import interval_ppm
from tidemark.models.rollout.facts import Facts, Move, Rollout
from tidemark.models.target import PPM, format_target

__all__ = ["needed_rows", "verify"]


def needed_rows(target_ppm: int, batch_rows: int) -> int:
    """Return how many pairs must be judged until a bound is verified.

    So many that the budget is told from twice it, and of so many batches that none decides alone.

    Args:
        target_ppm: the target in parts per million.
        batch_rows: pairs of a typical batch.
    """
    return max(math.ceil(VERIFY_LATE_ROWS * PPM / (PPM - target_ppm)), VERIFY_BATCHES * batch_rows)


def verify(rollout: Rollout, facts: Facts) -> Move:
    """Return what becomes of a rollout that is in effect."""
    judged, needed = facts.judged, rollout.needed_rows
    if rollout.direction == "Narrow":
        lost = _loses(rollout, facts)
        if lost is not None:
            return Move("RolledBack", lost, failure="Completeness")
    elif judged.rows >= needed:
        for above in (_too_slow(facts), _too_large(facts)):
            if above is not None:
                return above
    if judged.rows < needed:
        return Move(
            "Effective", f"in effect: {judged.rows:,} of the {needed:,} rows are judged that verify it"
        )
    kept = percent_of(judged.rows - judged.late_least, judged.rows)
    return Move("Verified", f"{kept} of {judged.rows:,} rows were kept{_against(rollout, facts)}")


def _loses(rollout: Rollout, facts: Facts) -> str | None:
    """Return how far completeness is worse than predicted and than asked for; None when that is not certain.

    It is judged over the needed rows. Before, it is certain when it would be so even if all rows still to come were
    on time, so that looking early raises no false alarm.
    """
    judged, slo = facts.judged, facts.slo
    rows = max(judged.rows, rollout.needed_rows)
    _, most_ppm = interval_ppm(judged.late_least, rows, slo.confidence_ppm)
    floor_ppm = slo.target_ppm if rollout.least_ppm is None else min(slo.target_ppm, rollout.least_ppm)
    if most_ppm is None or most_ppm >= floor_ppm:
        return None
    kept = percent_of(judged.rows - judged.late_least, judged.rows)
    return (
        f"{kept} of {judged.rows:,} rows were kept: fewer than predicted "
        f"(at least {_share(rollout.least_ppm)}) and than the target, {format_target(slo.target_ppm)}"
    )


def _too_slow(facts: Facts) -> Move | None:
    cap_ms, latency_us = facts.slo.latency_cap_ms, facts.latency_us
    if cap_ms is None or latency_us is None or latency_us <= cap_ms * 1_000 or facts.slo.yields == "latency":
        return None
    cap = format_duration(cap_ms * 1_000)
    told = f"the mean latency under it is {format_about(latency_us)}, above the cap of {cap}"
    return Move("RolledBack", told, failure="Latency")


def _too_large(facts: Facts) -> Move | None:
    cap, rows = facts.slo.state_cap_rows, facts.state_rows
    if cap is None or rows is None or rows <= cap or facts.slo.yields == "state":
        return None
    return Move(
        "RolledBack", f"the state under it has {rows:,} rows, above the cap of {cap:,}", failure="State"
    )


def _against(rollout: Rollout, facts: Facts) -> str:
    """Return how that compares with what was predicted; empty where it is as predicted."""
    judged = facts.judged
    _, most_ppm = interval_ppm(judged.late_least, judged.rows, facts.slo.confidence_ppm)
    if rollout.least_ppm is None or most_ppm is None or most_ppm >= rollout.least_ppm:
        return ", as predicted"
    told = f", fewer than predicted (at least {_share(rollout.least_ppm)})"
    if rollout.direction == "Widen":
        return f"{told}; going back to a narrower bound would keep fewer still"
    return f"{told}, but not below the target"


def _share(share_ppm: int | None) -> str:
    return "unknown" if share_ppm is None else f"{share_ppm / 10_000:.2f} %"
