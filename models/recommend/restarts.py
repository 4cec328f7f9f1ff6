"""Restarts for a bound: what a change must be worth where the job takes it by a restart.

A bound that follows every estimate restarts a job all day long. A certificate rests on how many independent events
there are, which late rows keep changing; that it no longer holds does not show that the bound in use is too narrow. So
the bound in use stays until the rows counted would have spent most of the error budget under it. It is narrowed as soon
as the wait saved outweighs the restarts, for the first time on a certificate. Either way it changes to a bound that
would have spent so little that it lasts: between the two there is room for the estimate to move.
"""

from __future__ import annotations

import math

from tidemark.models.base.defaults import (
    NARROW_DEAD_BAND_PPM,
    RESTART_COST_MS,
    RESTART_LEAVES_SPENT_PPM,
    RESTART_SPENT_PPM,
)
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.recommend.choice import rounded_up
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.steps import DecisionStep, StepKind


def few_restarts(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Keep a bound that spends less than most of the budget; change it, either way, to one that lasts.

    A bound that has not changed yet, such as a guess, is narrowed to what is certified: nothing would be taken back.
    """
    kind, in_use, needs = StepKind.RESTARTS, inputs.in_use_bound_ms, inputs.curve.needs
    if in_use is None or bound_ms == in_use:
        return DecisionStep(kind, bound_ms, "no restart for another bound")
    if bound_ms < in_use and inputs.changes.since_us is None:
        return DecisionStep(kind, bound_ms, f"{inputs.bound_name} has not changed before")
    rows, budget_ppm = inputs.evidence.rows, PPM - inputs.slo.target_ppm
    late = inputs.curve.at(in_use * 1_000).late
    if bound_ms > in_use and late * PPM * PPM <= RESTART_SPENT_PPM * budget_ppm * rows:
        spent = f"{format_share(late * PPM * PPM // (budget_ppm * rows))} of the error budget"
        reason = f"{inputs.bound_name}, {format_duration(in_use * 1_000)}, would have spent {spent} on all rows counted"
        return DecisionStep(
            kind, in_use, f"{reason}, and is not widened below {format_share(RESTART_SPENT_PPM)}"
        )
    lasting_us = needs.value_at_rank(rows - RESTART_LEAVES_SPENT_PPM * budget_ppm * rows // (PPM * PPM))
    lasting_ms = bound_ms if lasting_us is None else max(bound_ms, rounded_up(math.ceil(lasting_us / 1_000)))
    if bound_ms < in_use:
        lasting_ms = min(lasting_ms, in_use)
    else:
        # Each batch of a job that falls behind needs a little more than the one before.
        lasting_ms = max(lasting_ms, rounded_up(-(-in_use * (PPM + NARROW_DEAD_BAND_PPM) // PPM)))
    reason = f"{format_duration(lasting_ms * 1_000)} would have spent at most {format_share(RESTART_LEAVES_SPENT_PPM)}"
    return DecisionStep(
        kind, lasting_ms, f"{reason} of the error budget on all rows counted, so that it lasts"
    )


def too_dear(inputs: Inputs, bound_ms: int) -> str | None:
    """Return why a narrowing saves less than it costs in restarts, as a clause; None where it saves more.

    Until a job has caught up, windows go on ending, and wait for half of that time in the mean: in all, for its square
    over twice their slide. Narrowing takes one restart, and one more when it has to be taken back. It saves the
    difference for each window, for as long as the bound lasts: as long again, it is assumed, as the one in use has.
    """
    since_us, in_use, now_us = inputs.changes.since_us, inputs.in_use_bound_ms, inputs.evidence.to_us
    if in_use is None or since_us is None or now_us is None:
        return None
    lasted_ms = (now_us - since_us) // 1_000
    if (in_use - bound_ms) * lasted_ms >= RESTART_COST_MS**2:
        return None
    return f"not worth a restart {format_about(lasted_ms * 1_000)} after the last one"
