"""Restarts for a bound: each one within a day makes the next one dearer, so that a daily cycle takes a few.

Where a job takes a bound by a restart, a bound that follows the needs of a day up and down restarts it all day long.
So after each change within a day a widening goes further and a narrowing must save more, and after a widening nothing
is narrowed for a day: what was too narrow at some hour of it would be so again tomorrow. A stream whose bound has not
changed for a day pays nothing for this.
"""

from __future__ import annotations

import math

from tidemark.models.base.defaults import RESTART_STEP_PPM
from tidemark.models.base.duration import format_duration
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural
from tidemark.models.recommend.choice import rounded_up
from tidemark.models.recommend.guard_rails import not_narrowed
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.steps import DecisionStep, StepKind


def few_restarts(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Widen by more after each change within a day, but by no more than any row needs; narrow no sooner than a day
    after a widening.
    """
    kind, in_use, changed_us = StepKind.RESTARTS, inputs.in_use_bound_ms, inputs.changes.changed_us
    changed = f"the bound changed {plural(len(changed_us), 'time')} within a day"
    if in_use is None or bound_ms <= in_use:
        if inputs.changes.widened_us is None:
            return DecisionStep(kind, bound_ms, f"{changed}, and was not widened")
        return not_narrowed(kind, inputs, bound_ms, "the bound was widened within the last day")
    # From 0, steps are those of a bound as long as the time between batches.
    least_ms = max(in_use, (inputs.progress.batch_gap_us or 0) // 1_000)
    further_ms = in_use + least_ms * RESTART_STEP_PPM * len(changed_us) // PPM
    max_us = inputs.curve.needs.value_at_rank(inputs.evidence.rows)
    enough_ms = further_ms if max_us is None else math.ceil(max_us / 1_000)
    wider_ms = rounded_up(max(bound_ms, min(further_ms, enough_ms)))
    reason = f"{changed}: widened to {format_duration(wider_ms * 1_000)}, to last for longer"
    return DecisionStep(kind, wider_ms, reason)
